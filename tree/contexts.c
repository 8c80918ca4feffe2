// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Runs a driver in every context from which it may be called: in a task, in a task with softirqs
 * disabled, and in softirqs raised by interrupts that arrive during the task's requests. Each
 * answer is compared with the answer of the tree's generic driver, which was computed beforehand
 * without interrupts. The tree's own build compiles this file, like glue.c.
 */
#include <linux/bottom_half.h>
#include <linux/completion.h>
#include <linux/err.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/version.h>
#include <crypto/aead.h>
#include <crypto/hash.h>
#include <crypto/skcipher.h>

#include "kiln/tree.h"

#define KILN_SOFTIRQ 7		/* IRQ_POLL_SOFTIRQ, which is unused here */
#define MESSAGES 8
#define LONGEST 4096
#define EXTRA 128		/* space for associated data and tag, or for a digest */
#define AAD 16
#define POLY1305_KEY 32

u64 kiln_glue_contexts(struct kiln_contexts *c);
void kiln_on_interrupt(void (*handler)(void *cpu));
void kiln_raise_softirq(unsigned int nr);
void kiln_open_softirq(unsigned int nr, void (*handler)(void *cpu));

static u8 kiln_text[MESSAGES][LONGEST + EXTRA];
static u8 kiln_expected[MESSAGES][LONGEST + EXTRA];
static u32 kiln_length[MESSAGES];
static u8 kiln_key[128];
static unsigned int kiln_key_length;
static u8 kiln_iv[64];

/* An open driver and one request, for use in one context. */
struct kiln_side {
	enum kiln_type type;
	void *tfm;
	void *request;
	struct scatterlist sg;
	struct completion done;
	u8 *data;
	u8 iv[64];
	int answer;
	u32 message;
	bool busy;		/* whether the softirq's request is still in flight */
};

static struct kiln_contexts *kiln_wanted;
static struct kiln_side *kiln_softirq_side;

static int kiln_setkey(struct kiln_side *s, unsigned int len)
{
	switch (s->type) {
	case KILN_TYPE_SKCIPHER:
		return crypto_skcipher_setkey(s->tfm, kiln_key, len);
	case KILN_TYPE_AEAD:
		return crypto_aead_setkey(s->tfm, kiln_key, len);
	default:
		return crypto_ahash_setkey(s->tfm, kiln_key, len);
	}
}

static bool kiln_needs_key(struct kiln_side *s)
{
	return s->type != KILN_TYPE_HASH ||
	       crypto_ahash_get_flags(s->tfm) & CRYPTO_TFM_NEED_KEY;
}

static unsigned int kiln_tag(struct kiln_side *s)
{
	return s->type == KILN_TYPE_AEAD ? crypto_aead_authsize(s->tfm) : 0;
}

static unsigned int kiln_expected_size(struct kiln_side *s, u32 message)
{
	switch (s->type) {
	case KILN_TYPE_SKCIPHER:
		return kiln_length[message];
	case KILN_TYPE_AEAD:
		return AAD + kiln_length[message] + kiln_tag(s);
	default:
		return crypto_ahash_digestsize(s->tfm);
	}
}

static u8 *kiln_result(struct kiln_side *s)
{
	return s->type == KILN_TYPE_HASH ? s->data + LONGEST : s->data;
}

static bool kiln_is_right(struct kiln_side *s)
{
	return !s->answer && !memcmp(kiln_result(s), kiln_expected[s->message],
				     kiln_expected_size(s, s->message));
}

static void kiln_ended(struct kiln_side *s, int answer)
{
	s->answer = answer;
	if (s == kiln_softirq_side) {
		kiln_wanted->cases[KILN_IN_SOFTIRQ]++;
		kiln_wanted->wrong[KILN_IN_SOFTIRQ] += !kiln_is_right(s);
		WRITE_ONCE(s->busy, false);
	}
	complete(&s->done);
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
static void kiln_context_done(void *data, int answer)
{
	if (answer != -EINPROGRESS)
		kiln_ended(data, answer);
}
#else
static void kiln_context_done(struct crypto_async_request *request, int answer)
{
	if (answer != -EINPROGRESS)
		kiln_ended(request->data, answer);
}
#endif

static void kiln_close(struct kiln_side *s)
{
	if (!s)
		return;
	kfree(s->request);
	kfree(s->data);
	if (!IS_ERR_OR_NULL(s->tfm)) {
		if (s->type == KILN_TYPE_SKCIPHER)
			crypto_free_skcipher(s->tfm);
		else if (s->type == KILN_TYPE_AEAD)
			crypto_free_aead(s->tfm);
		else
			crypto_free_ahash(s->tfm);
	}
	kfree(s);
}

/*
 * Tries several key sizes in order until the driver accepts one. All sides that are opened later
 * use the same key.
 */
static int kiln_find_key(struct kiln_side *s)
{
	static const u8 lengths[] = { 32, 64, 16, 36, 20, 24, 19, 35, 8, 4, 48, 128 };
	int error = 0;
	size_t i;

	if (!kiln_needs_key(s))
		return 0;
	if (kiln_key_length)
		return kiln_setkey(s, kiln_key_length);
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		error = kiln_setkey(s, lengths[i]);
		if (!error) {
			kiln_key_length = lengths[i];
			break;
		}
	}
	return error;
}

static struct kiln_side *kiln_open_side(const char *driver, enum kiln_type type, bool sleeps)
{
	const u32 flags = sleeps ? CRYPTO_TFM_REQ_MAY_SLEEP | CRYPTO_TFM_REQ_MAY_BACKLOG : 0;
	struct kiln_side *s = kzalloc(sizeof(*s), GFP_KERNEL);
	unsigned int size = 0;
	int error;

	if (!s)
		return ERR_PTR(-ENOMEM);
	s->type = type;
	init_completion(&s->done);
	s->data = kzalloc(LONGEST + EXTRA, GFP_KERNEL);
	s->tfm = type == KILN_TYPE_SKCIPHER ? (void *)crypto_alloc_skcipher(driver, 0, 0) :
		 type == KILN_TYPE_AEAD ? (void *)crypto_alloc_aead(driver, 0, 0) :
		 (void *)crypto_alloc_ahash(driver, 0, 0);
	error = IS_ERR(s->tfm) ? PTR_ERR(s->tfm) : kiln_find_key(s);
	if (!error && type == KILN_TYPE_SKCIPHER)
		size = sizeof(struct skcipher_request) + crypto_skcipher_reqsize(s->tfm);
	else if (!error && type == KILN_TYPE_AEAD)
		size = sizeof(struct aead_request) + crypto_aead_reqsize(s->tfm);
	else if (!error)
		size = sizeof(struct ahash_request) + crypto_ahash_reqsize(s->tfm);
	if (!error) {
		s->request = kzalloc(size, GFP_KERNEL);
		error = s->request && s->data ? 0 : -ENOMEM;
	}
	if (error) {
		kiln_close(s);
		return ERR_PTR(error);
	}
	if (type == KILN_TYPE_SKCIPHER) {
		skcipher_request_set_tfm(s->request, s->tfm);
		skcipher_request_set_callback(s->request, flags, kiln_context_done, s);
	} else if (type == KILN_TYPE_AEAD) {
		aead_request_set_tfm(s->request, s->tfm);
		aead_request_set_callback(s->request, flags, kiln_context_done, s);
	} else {
		ahash_request_set_tfm(s->request, s->tfm);
		ahash_request_set_callback(s->request, flags, kiln_context_done, s);
	}
	return s;
}

/*
 * Submits a request and returns the crypto API's result. When the request completes, the answer is
 * in @s.
 */
static int kiln_put(struct kiln_side *s, u32 message)
{
	const unsigned int len = kiln_length[message];
	const unsigned int all = s->type == KILN_TYPE_AEAD ? AAD + len : len;
	int result;

	s->message = message;
	memcpy(s->data, kiln_text[message], all);
	memcpy(s->iv, kiln_iv, sizeof(s->iv));
	sg_init_one(&s->sg, s->data, all + kiln_tag(s));
	reinit_completion(&s->done);
	if (s->type == KILN_TYPE_SKCIPHER) {
		skcipher_request_set_crypt(s->request, &s->sg, &s->sg, len, s->iv);
		result = crypto_skcipher_encrypt(s->request);
	} else if (s->type == KILN_TYPE_AEAD) {
		aead_request_set_crypt(s->request, &s->sg, &s->sg, len, s->iv);
		aead_request_set_ad(s->request, AAD);
		result = crypto_aead_encrypt(s->request);
	} else {
		ahash_request_set_crypt(s->request, &s->sg, s->data + LONGEST, len);
		result = crypto_ahash_digest(s->request);
	}
	if (result != -EINPROGRESS && result != -EBUSY)
		kiln_ended(s, result);
	return result;
}

static void kiln_softirq(void *cpu)
{
	struct kiln_side *s = kiln_softirq_side;
	int result;

	if (!s || READ_ONCE(s->busy))
		return;
	s->busy = true;
	result = kiln_put(s, (s->message + 1) % MESSAGES);
	/* The request was rejected and its callback will not be called, so do not count it. */
	if (result == -ENOSPC) {
		kiln_wanted->cases[KILN_IN_SOFTIRQ]--;
		kiln_wanted->wrong[KILN_IN_SOFTIRQ]--;
		kiln_wanted->refused++;
	}
}

static void kiln_interrupt(void *cpu)
{
	kiln_raise_softirq(KILN_SOFTIRQ);
}

static u64 kiln_draw(u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void kiln_draw_messages(u64 seed, unsigned int unit)
{
	u64 state = seed | 1;
	unsigned int i, n;

	for (n = 0; n < sizeof(kiln_key); n++)
		kiln_key[n] = kiln_draw(&state);
	for (n = 0; n < sizeof(kiln_iv); n++)
		kiln_iv[n] = kiln_draw(&state);
	kiln_iv[0] = 3;		/* CCM: size of the length field minus 1 */
	for (i = 0; i < MESSAGES; i++) {
		kiln_length[i] = 16 + kiln_draw(&state) % (i < 4 ? 240 : LONGEST - 16);
		kiln_length[i] -= kiln_length[i] % unit;
		for (n = 0; n < LONGEST + EXTRA; n++)
			kiln_text[i][n] = kiln_draw(&state);
		/*
		 * RFC 4106 and similar templates read the IV from the end of the
		 * associated data.
		 */
		memcpy(kiln_text[i] + AAD - 8, kiln_iv, 8);
	}
}

static int kiln_wait_for(struct kiln_side *s, int result)
{
	if (result == -EINPROGRESS || result == -EBUSY)
		wait_for_completion(&s->done);
	return s->answer;
}

u64 kiln_glue_contexts(struct kiln_contexts *c)
{
	struct kiln_side *generic, *task, *softirq = NULL;
	u32 i;

	/* All ciphers accept lengths that are multiples of 16. Hashes accept any length. */
	kiln_draw_messages(c->seed, c->type == KILN_TYPE_HASH ? 1 : 16);
	kiln_key_length = 0;
	task = kiln_open_side(c->driver, c->type, true);
	if (IS_ERR(task)) {
		c->error = PTR_ERR(task);
		return 1;
	}
	generic = kiln_open_side(c->generic, c->type, true);
	if (IS_ERR(generic)) {
		c->generic_error = PTR_ERR(generic);
		kiln_close(task);
		return 1;
	}
	for (i = 0; i < MESSAGES; i++) {
		c->generic_error = kiln_wait_for(generic, kiln_put(generic, i));
		/*
		 * Poly1305 without a template takes its key from the start of the message, so it
		 * rejects shorter messages.
		 */
		if (c->generic_error == -ENOKEY && kiln_length[i] < POLY1305_KEY) {
			kiln_length[i] += POLY1305_KEY;
			c->generic_error = kiln_wait_for(generic, kiln_put(generic, i));
		}
		if (c->generic_error)
			goto out;
		memcpy(kiln_expected[i], kiln_result(generic), kiln_expected_size(generic, i));
	}
	softirq = kiln_open_side(c->driver, c->type, false);
	if (IS_ERR(softirq)) {
		c->error = PTR_ERR(softirq);
		softirq = NULL;
		goto out;
	}
	kiln_wanted = c;
	kiln_softirq_side = softirq;
	kiln_open_softirq(KILN_SOFTIRQ, kiln_softirq);
	kiln_on_interrupt(kiln_interrupt);
	for (i = 0; i < c->rounds ||
		    (c->cases[KILN_IN_SOFTIRQ] < c->softirqs && i < 100 * c->rounds); i++) {
		kiln_wait_for(task, kiln_put(task, i % MESSAGES));
		c->cases[KILN_IN_TASK]++;
		c->wrong[KILN_IN_TASK] += !kiln_is_right(task);
		{
			int result;

			local_bh_disable();
			result = kiln_put(task, (i + 1) % MESSAGES);
			local_bh_enable();
			kiln_wait_for(task, result);
		}
		c->cases[KILN_IN_BH_OFF]++;
		c->wrong[KILN_IN_BH_OFF] += !kiln_is_right(task);
	}
	kiln_on_interrupt(NULL);
	/* Wait for the softirq's last request, because kiln_close() frees it. */
	while (READ_ONCE(softirq->busy))
		wait_for_completion(&softirq->done);
	local_bh_disable();
	kiln_softirq_side = NULL;
	local_bh_enable();
out:
	kiln_close(softirq);
	kiln_close(generic);
	kiln_close(task);
	return 0;
}
