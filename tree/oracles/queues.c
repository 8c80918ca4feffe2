// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Queues: checks asynchronous requests. They are submitted while softirqs are disabled, so that
 * none of them completes before all are submitted. The cases differ in how full cryptd's queue is
 * and in whether CRYPTO_TFM_REQ_MAY_BACKLOG is set. Each request must complete once, with the right
 * answer:
 *
 *	returned	then the callback gets
 *	-EINPROGRESS	the answer
 *	-EBUSY		-EINPROGRESS when the request leaves the backlog, and then the answer; only with
 *			CRYPTO_TFM_REQ_MAY_BACKLOG
 *	anything else	nothing, because this was the answer; -ENOSPC only without
 *			CRYPTO_TFM_REQ_MAY_BACKLOG
 *
 * Requests of one transform must complete in the order they were submitted. The queue may also be
 * full when a template submits a request in a child's callback; the template's caller must not
 * notice this.
 *
 * When the callback gets the answer, the caller owns the request again. The callback frees the
 * request, so that a later access crashes. A hash that is in progress is also continued by another
 * request, by another transform, and by a clone of the transform.
 */
#include <linux/bottom_half.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <crypto/hash.h>
#include <crypto/internal/simd.h>

#include "kiln/oracle.h"

#define MESSAGES 3
#define FORGED 1		/* index of the request whose tag is wrong */
#define MOST (3 * KILN_QUEUE_LENGTH)
/* Maximum number of asynchronous steps in a request. Each may wait behind all other requests. */
#define ROUNDS 32

/* This function was added in 6.4, but some later trees lack it. */
struct crypto_ahash *crypto_clone_ahash(struct crypto_ahash *hash) __attribute__((weak));

/* A request in flight, with its buffers. */
struct kiln_flight {
	struct kiln_subject s;	/* uses the same transform as all other requests */
	struct kiln_wave *wave;
	const struct kiln_message *message;
	int right;		/* expected answer, obtained from an ordinary request */
	bool forged;
	struct scatterlist sg;
	u8 *data, *iv, *digest;
	int returned;
	unsigned int notified, answered;
};

/* Requests that are in flight together. */
struct kiln_wave {
	bool decrypt;
	bool frees;		/* whether the callback frees the completed request */
	bool compares;		/* whether answers are reproducible and can be compared */
	int forged_error;	/* result of decrypting a message with a wrong tag */
	unsigned int count;
	unsigned int accepted, answered;
	int last;		/* index of the last request that succeeded */
	struct kiln_flight flights[MOST];
};

static const struct kiln_filling {
	const char *name;
	unsigned int count;
	bool frees;
} kiln_fillings[] = {
	{ "an empty queue", 1 },
	{ "a queue that is nearly full", KILN_QUEUE_LENGTH + 1 },
	{ "a full queue", MOST },
	{ "a full queue, freed in the callback", MOST, .frees = true },
	/* Checks that the queue accepts requests again after it was full. */
	{ "a queue that was full", KILN_QUEUE_LENGTH },
};

enum kiln_backlog { KILN_NO_BACKLOG, KILN_ALL_BACKLOG, KILN_SOME_BACKLOG, KILN_BACKLOGS };

/*
 * Sets of requests for which SIMD is made unusable, so that they may be deferred to cryptd: none,
 * all, or the first half.
 */
enum kiln_simd { KILN_SIMD_ON, KILN_SIMD_OFF, KILN_SIMD_OFF_FIRST, KILN_SIMDS };

static void kiln_set_simd(bool usable)
{
#if defined(CONFIG_CRYPTO_MANAGER_EXTRA_TESTS) || defined(CONFIG_CRYPTO_SELFTESTS_FULL)
	this_cpu_write(crypto_simd_disabled_for_test, !usable);
#endif
}

static unsigned int kiln_number(const struct kiln_flight *f)
{
	return f - f->wave->flights;
}

static bool kiln_in_flight(const struct kiln_flight *f)
{
	return f->returned == -EINPROGRESS || f->returned == -EBUSY;
}

static bool kiln_is_right(const struct kiln_flight *f)
{
	const struct kiln_message *m = f->message;
	const unsigned int open = m->aad + m->len;
	unsigned int i;

	if (!f->wave->compares && !f->wave->decrypt)
		return true;
	if (f->s.type == KILN_TYPE_HASH)
		return !memcmp(f->digest, m->sealed, f->s.digest);
	if (!f->wave->decrypt)
		return !memcmp(f->data + m->aad, m->sealed + m->aad,
			       kiln_message_sealed(&f->s, m) - m->aad);
	for (i = m->aad; i < open; i++)
		if (m->written[i] && f->data[i] != m->opened[i])
			return false;
	return true;
}

static void kiln_check_answer(struct kiln_flight *f, int answer)
{
	const bool may_backlog = f->s.flags & CRYPTO_TFM_REQ_MAY_BACKLOG;

	if (answer == -ENOSPC) {
		if (may_backlog)
			kiln_violates("backlog-refused",
				      "a request that may be backlogged ends with -ENOSPC");
		else if (f->wave->count <= KILN_QUEUE_LENGTH)
			kiln_violates("queue-answer", "ends with -ENOSPC, though the queue was never full");
		return;
	}
	if (answer == -EBUSY || answer == -EINPROGRESS)
		kiln_violates("queue-answer", "completes a request with %d, which is no answer", answer);
	else if (answer != f->right)
		kiln_violates("answer", "ends with %d, but %d when nothing else is queued", answer,
			      f->right);
	else if (!answer && !f->forged && !kiln_is_right(f))
		kiln_violates("answer", "is completed with a wrong answer; it is right when nothing else is queued");
	if (answer)
		return;
	if ((int)kiln_number(f) < f->wave->last)
		kiln_violates("order", "request %u is answered after request %d, which was submitted later",
			      kiln_number(f), f->wave->last);
	f->wave->last = kiln_number(f);
}

static void kiln_free_flight(struct kiln_flight *f)
{
	kfree(f->s.request);
	kfree(f->data);
	kfree(f->iv);
	kfree(f->digest);
	f->s.request = f->data = f->iv = f->digest = NULL;
}

/* Each request's callback. Checks how it is called, and whether the answer is right. */
static void kiln_flight_answered(struct kiln_subject *s, int answer)
{
	struct kiln_flight *f = container_of(s, struct kiln_flight, s);

	kiln_case.number = kiln_number(f);
	if (!softirq_count())
		kiln_violates("callback", "calls the callback of a request with softirqs on");
	if (f->answered) {
		kiln_violates("completed-twice", "completes a request with %d after its answer", answer);
		return;
	}
	if (answer == -EINPROGRESS) {
		/*
		 * A request can leave the backlog only after the function that submitted it has
		 * returned -EBUSY.
		 */
		if (f->notified++)
			kiln_violates("backlog-stray", "says twice that a request leaves the backlog");
		else if (f->returned != -EBUSY)
			kiln_violates("backlog-stray",
				      "says that a request leaves the backlog, which returned %d and not -EBUSY",
				      f->returned);
		return;
	}
	f->answered++;
	f->wave->answered++;
	if (f->returned == -EBUSY && !f->notified)
		kiln_violates("backlog-lost",
			      "a request that returned -EBUSY is answered without -EINPROGRESS before");
	kiln_check_answer(f, answer);
	if (f->wave->frees)
		kiln_free_flight(f);
}

static int kiln_prepare(struct kiln_flight *f, const struct kiln_subject *s,
			const struct kiln_message *m)
{
	const bool hash = s->type == KILN_TYPE_HASH, decrypt = f->wave->decrypt;
	const unsigned int open = m->aad + m->len, sealed = open + s->tag;

	f->s = *s;
	f->s.request = NULL;
	f->s.answered = kiln_flight_answered;
	init_completion(&f->s.done);
	f->message = m;
	f->right = f->forged ? f->wave->forged_error : decrypt ? m->open_error : 0;
	f->returned = 0;
	f->notified = f->answered = 0;
	f->data = kmalloc(sealed, GFP_KERNEL);
	f->iv = kmalloc(sizeof(m->iv), GFP_KERNEL);
	f->digest = kmalloc(hash ? s->digest : 1, GFP_KERNEL);
	if (!f->data || !f->iv || !f->digest || kiln_subject_request(&f->s))
		return -ENOMEM;
	memcpy(f->data, decrypt ? m->sealed : m->text, decrypt ? sealed : open);
	memcpy(f->iv, m->iv, sizeof(m->iv));
	if (f->forged)
		f->data[sealed - 1] ^= 1;
	sg_init_one(&f->sg, f->data, hash ? m->len : sealed);
	return 0;
}

/* Checks a request's return value. @others is the number of requests in flight on this CPU. */
static void kiln_check_returned(struct kiln_flight *f, unsigned int others)
{
	const bool may_backlog = f->s.flags & CRYPTO_TFM_REQ_MAY_BACKLOG;
	const bool is_queue = !strncmp(f->s.order->name, "cryptd(", 7);

	if (!kiln_in_flight(f)) {
		if (f->answered)
			kiln_violates("completed-twice", "a request returns %d and is completed, too", f->returned);
		if (f->returned == -ENOSPC && !may_backlog && others < KILN_QUEUE_LENGTH)
			kiln_violates("queue-answer", "returns -ENOSPC with %u requests in a queue for %u",
				      others, KILN_QUEUE_LENGTH);
		else if (f->wave->accepted && f->returned == 0)
			kiln_violates("order", "request %u is answered before those that were queued before it",
				      kiln_number(f));
		else if (f->returned != -ENOSPC || may_backlog)
			kiln_check_answer(f, f->returned);
		return;
	}
	f->wave->accepted++;
	if (!f->s.is_async)
		kiln_violates("async-flag", "returns %d without CRYPTO_ALG_ASYNC", f->returned);
	if (f->returned == -EBUSY && !may_backlog)
		kiln_violates("queue-answer", "returns -EBUSY without CRYPTO_TFM_REQ_MAY_BACKLOG");
	else if (f->returned == -EBUSY && others < KILN_QUEUE_LENGTH)
		kiln_violates("queue-answer", "returns -EBUSY with %u requests in a queue for %u",
			      others, KILN_QUEUE_LENGTH);
	else if (f->returned == -EINPROGRESS && is_queue && others >= KILN_QUEUE_LENGTH)
		kiln_violates("queue-answer", "returns -EINPROGRESS with %u requests in a queue for %u",
			      others, KILN_QUEUE_LENGTH);
}

static void kiln_submit_flight(struct kiln_flight *f, enum kiln_backlog backlog)
{
	const struct kiln_message *m = f->message;
	const unsigned int others = f->wave->accepted;
	const struct kiln_call call = {
		.src = &f->sg, .dst = &f->sg, .aad = m->aad, .iv = f->iv, .result = f->digest,
		.decrypt = f->wave->decrypt,
		.len = m->len + (f->wave->decrypt ? f->s.tag : 0),
	};

	f->s.flags = backlog == KILN_ALL_BACKLOG ||
		     (backlog == KILN_SOME_BACKLOG && kiln_number(f) & 1) ?
		     CRYPTO_TFM_REQ_MAY_BACKLOG : 0;
	kiln_case.number = kiln_number(f);
	f->returned = kiln_submit(&f->s, &call);
	kiln_check_returned(f, others);
}

/*
 * Decrypts a message whose tag is wrong, and returns the result. Some algorithms return no error.
 */
static int kiln_try_forged(struct kiln_subject *s, struct kiln_message *m)
{
	const unsigned int sealed = kiln_message_sealed(s, m);
	struct scatterlist sg;
	const struct kiln_call call = { .src = &sg, .dst = &sg, .len = sealed - m->aad,
					.aad = m->aad, .iv = m->iv_out, .decrypt = true };

	s->flags = CRYPTO_TFM_REQ_MAY_SLEEP | CRYPTO_TFM_REQ_MAY_BACKLOG;
	memcpy(m->iv_out, m->iv, sizeof(m->iv));
	memcpy(m->room, m->sealed, sealed);
	m->room[sealed - 1] ^= 1;
	sg_init_one(&sg, m->room, sealed);
	return kiln_ask(s, &call);
}

static void kiln_fly(struct kiln_subject *s, struct kiln_message *messages,
		     const struct kiln_filling *filling, enum kiln_backlog backlog,
		     enum kiln_simd simd, bool decrypt, bool compares)
{
	struct kiln_wave *w = kzalloc(sizeof(*w), GFP_KERNEL);
	unsigned int i;
	int error = 0;

	if (!w)
		return;
	w->decrypt = decrypt;
	w->frees = filling->frees;
	w->compares = compares;
	w->count = filling->count;
	w->last = -1;
	if (decrypt && s->type == KILN_TYPE_AEAD)
		w->forged_error = kiln_try_forged(s, &messages[FORGED % MESSAGES]);
	kiln_case.op = s->type == KILN_TYPE_HASH ? "digest" : decrypt ? "decrypt" : "encrypt";
	kiln_case.layout = filling->name;
	kiln_case.varied = backlog == KILN_NO_BACKLOG ? "none may be backlogged, request" :
			   backlog == KILN_ALL_BACKLOG ? "all may be backlogged, request" :
			   "each other may be backlogged, request";
	kiln_guard(w->frees);
	for (i = 0; i < w->count && !error; i++) {
		struct kiln_flight *f = &w->flights[i];

		f->wave = w;
		f->forged = decrypt && s->type == KILN_TYPE_AEAD && i == FORGED;
		error = kiln_prepare(f, s, &messages[i % MESSAGES]);
	}
	local_bh_disable();
	for (i = 0; i < w->count && !error; i++) {
		kiln_set_simd(simd == KILN_SIMD_ON ||
			      (simd == KILN_SIMD_OFF_FIRST && i >= w->count / 2));
		kiln_submit_flight(&w->flights[i], backlog);
	}
	kiln_set_simd(true);
	local_bh_enable();
	for (i = 0; i < ROUNDS * MOST && w->answered < w->accepted; i++)
		kiln_settle();
	for (i = 0; i < w->count && !error; i++) {
		struct kiln_flight *f = &w->flights[i];

		kiln_case.number = i;
		/*
		 * Do not free a request that has never completed, because the driver may still use
		 * it.
		 */
		if (!kiln_in_flight(f) || f->answered)
			kiln_free_flight(f);
		else
			kiln_violates("never-answered", "a request that returned %d is never answered%s",
				      f->returned, f->notified ? ", but said to leave the backlog" : "");
	}
	kiln_guard(false);
	kiln_case.varied = NULL;
	if (w->answered == w->accepted)
		kfree(w);
}

/* Imports @state into the new request of @s, completes the hash, and compares the digest. */
static void kiln_take_up(struct kiln_subject *s, const struct kiln_message *m, unsigned int from,
			 const u8 *state, const char *who)
{
	u8 digest[128] = {};
	int error;

	kiln_case.layout = who;
	kiln_subject_listen(s);
	error = crypto_ahash_import(s->request, state);
	error = error ?: kiln_hash_step(s, m->text + from, m->len - from, digest, crypto_ahash_finup);
	if (error)
		kiln_violates("answer", "an exported state that is taken up gives %d", error);
	else if (memcmp(digest, m->sealed, s->digest))
		kiln_violates("answer", "an exported state that is taken up gives a wrong digest");
}

static void kiln_take_up_clone(struct kiln_subject *s, const struct kiln_message *m,
			       unsigned int from, const u8 *state)
{
	struct kiln_subject clone = *s;
	struct crypto_ahash *tfm = crypto_clone_ahash ? crypto_clone_ahash(s->tfm) : NULL;

	/* Some transforms cannot be cloned. */
	if (IS_ERR_OR_NULL(tfm))
		return;
	clone.tfm = tfm;
	clone.request = clone.key = NULL;
	init_completion(&clone.done);
	/* A clone does not inherit the key, so set it. */
	if ((!s->key || !kiln_subject_setkey(&clone, s->key, s->key_len)) &&
	    !kiln_subject_request(&clone))
		kiln_take_up(&clone, m, from, state, "export, import by a clone");
	kiln_subject_close(&clone);
}

/*
 * Hashes a message in two parts. Between the parts, other requests import the state and complete
 * the hash.
 */
static void kiln_hash_in_parts(struct kiln_examine *order, struct kiln_subject *s,
			       const struct kiln_message *m)
{
	const unsigned int first = m->len / 3 + 1;
	struct kiln_subject other = *s, second;
	u8 *state = kmalloc(s->state, GFP_KERNEL);
	u8 digest[128] = {};
	int error;

	kiln_case.op = "update, finup";
	kiln_case.layout = "export, import by another request";
	order->cases++;
	other.request = other.key = NULL;
	init_completion(&other.done);
	if (!state || kiln_subject_request(&other)) {
		kfree(state);
		return;
	}
	kiln_subject_listen(s);
	error = kiln_hash_step(s, m->text, 0, digest, crypto_ahash_init);
	error = error ?: kiln_hash_step(s, m->text, first, digest, crypto_ahash_update);
	/* Ignore a failing export: some hashes cannot be continued by another request. */
	if (!error && !crypto_ahash_export(s->request, state)) {
		kiln_take_up(&other, m, first, state, "export, import by another request");
		kiln_take_up_clone(s, m, first, state);
		if (!kiln_subject_open(&second, order)) {
			second.flags = s->flags;
			kiln_case.op = "update, finup";
			kiln_take_up(&second, m, first, state, "export, import by another transform");
			kiln_subject_close(&second);
		}
		kiln_case.layout = "finup after the state was exported";
		error = kiln_hash_step(s, m->text + first, m->len - first, digest, crypto_ahash_finup);
		if (error || memcmp(digest, m->sealed, s->digest))
			kiln_violates("answer", "gives %d and %s digest after its state was exported", error,
				      error ? "no" : "a wrong");
	}
	kfree(other.request);
	kfree(state);
}

static void kiln_fly_all(struct kiln_examine *order, struct kiln_subject *s,
			 struct kiln_message *messages, bool compares)
{
	const unsigned int ways = s->type == KILN_TYPE_HASH ? 1 : 2;
	unsigned int i, backlog, simd, decrypt;

	for (decrypt = 0; decrypt < ways; decrypt++)
		for (simd = 0; simd < KILN_SIMDS; simd++)
			for (backlog = 0; backlog < KILN_BACKLOGS; backlog++)
				for (i = 0; i < ARRAY_SIZE(kiln_fillings); i++) {
					/* One request suffices for a synchronous driver. */
					if (!s->is_async && (i || backlog || simd))
						continue;
					order->cases++;
					kiln_fly(s, messages, &kiln_fillings[i], backlog, simd, decrypt,
						 compares);
				}
}

void kiln_examine_queues(struct kiln_examine *order)
{
	static const u16 lengths[] = { 48, 65 };
	static struct kiln_message messages[MESSAGES];
	struct kiln_subject s;
	u64 draw = kiln_seed_of(order), again, digest[2];
	unsigned int i, j;

	order->error = kiln_subject_open(&s, order);
	if (order->error)
		return;
	for (i = 0; i < MESSAGES && !order->error; i++)
		order->error = kiln_message_alloc(&messages[i]);
	for (i = 0; i < ARRAY_SIZE(lengths) && !order->error; i++) {
		s.flags = CRYPTO_TFM_REQ_MAY_SLEEP | CRYPTO_TFM_REQ_MAY_BACKLOG;
		kiln_case.op = "encrypt";
		kiln_case.layout = "ordinary";
		kiln_case.len = lengths[i];
		kiln_case.aad = s.aad;
		/* Find out whether the driver randomises its answers. */
		for (j = 0; j < 2; j++) {
			again = draw;
			kiln_message_seal(&s, messages, lengths[i], s.aad, &again);
			digest[j] = kiln_hash(1, messages->sealed, kiln_message_sealed(&s, messages));
		}
		order->cases++;
		/*
		 * Skip this length unless all messages can be encrypted. With echainiv(ccm(aes)),
		 * CCM rejects most of the generated IVs, but not all.
		 */
		for (j = 0; j < MESSAGES; j++) {
			kiln_message_seal(&s, &messages[j], lengths[i], s.aad, &draw);
			if (messages[j].error)
				break;
			if (s.type != KILN_TYPE_HASH)
				kiln_message_open(&s, &messages[j]);
		}
		if (j < MESSAGES) {
			order->refused++;
			continue;
		}
		kiln_fly_all(order, &s, messages, digest[0] == digest[1]);
		if (s.type == KILN_TYPE_HASH && digest[0] == digest[1]) {
			s.flags = CRYPTO_TFM_REQ_MAY_SLEEP | CRYPTO_TFM_REQ_MAY_BACKLOG;
			kiln_hash_in_parts(order, &s, messages);
		}
	}
	for (i = 0; i < MESSAGES; i++)
		kiln_message_free(&messages[i]);
	kiln_subject_close(&s);
}
