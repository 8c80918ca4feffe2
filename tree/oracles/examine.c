// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Examines one driver with one oracle. This file contains the table of oracles, and the code that
 * the oracles share to open a driver, set its key and make requests. The tree's own build compiles
 * this file, like glue.c.
 */
#include <linux/err.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/preempt.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/version.h>
#include <asm/fpu/api.h>
#include <crypto/aead.h>
#include <crypto/authenc.h>
#include <crypto/hash.h>
#include <crypto/skcipher.h>

#include "kiln/oracle.h"

/* Repeats the declaration in services/service.h, which this file does not include. */
int kiln_glue_vsnprintf(char *text, size_t size, const char *format, va_list args);

u64 kiln_glue_examine(struct kiln_examine *order);
void kiln_glue_worked(void);

static void (*const kiln_oracles[])(struct kiln_examine *order) = {
	[KILN_ORACLE_MEMORY] = kiln_examine_memory,
	[KILN_ORACLE_CONTEXT] = kiln_examine_context,
	[KILN_ORACLE_VALUES] = kiln_examine_values,
	[KILN_ORACLE_LEAKS] = kiln_examine_leaks,
	[KILN_ORACLE_FAILURES] = kiln_examine_failures,
	[KILN_ORACLE_FILL] = kiln_examine_fill,
	[KILN_ORACLE_QUEUES] = kiln_examine_queues,
	[KILN_ORACLE_SHARING] = kiln_examine_sharing,
	[KILN_ORACLE_REGISTERS] = kiln_examine_registers,
	[KILN_ORACLE_FEATURES] = kiln_examine_features,
	[KILN_ORACLE_BOUNDS] = kiln_examine_bounds,
	[KILN_ORACLE_SEQUENCE] = kiln_examine_sequence,
};

static bool kiln_examines;

/*
 * Checks that the preempt count is still @count. If it is not, reports that @what has changed it,
 * and restores it, so that the code that runs next is not blamed.
 */
static void kiln_keep_count(int count, const char *what)
{
	if (preempt_count() == count)
		return;
	kiln_violates("unbalanced", "%s changes the preempt count from %#x to %#x", what, count,
		      preempt_count());
	preempt_count_set(count);
}

/* Called in the thread of a work queue after each item. */
void kiln_glue_worked(void)
{
	if (kiln_examines)
		kiln_keep_count(0, "an item of a work queue");
}

u64 kiln_glue_examine(struct kiln_examine *order)
{
	if (order->number >= ARRAY_SIZE(kiln_oracles))
		return EINVAL;
	kiln_examines = true;
	kiln_subject_is(order->oracle, order->name);
	memset(&kiln_case, 0, sizeof(kiln_case));
	kiln_oracles[order->number](order);
	kiln_examines = false;
	kiln_subject_is("", "");
	return 0;
}

void kiln_violates(const char *rule, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	kiln_glue_vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	kiln_violated(rule, text, NULL);
}

u64 kiln_draw_next(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

void kiln_draw_bytes(u64 *state, u8 *to, unsigned long n)
{
	while (n--)
		*to++ = kiln_draw_next(state);
}

u64 kiln_hash(u64 hash, const void *from, unsigned long n)
{
	const u8 *byte = from;

	while (n--)
		hash = (hash ^ *byte++) * 0x100000001b3ull;
	return hash;
}

/* Returns a seed that is the same for all drivers of an algorithm. */
u64 kiln_seed_of(const struct kiln_examine *order)
{
	const char *alg = order->alg;

	if (!strncmp(alg, "__", 2))
		alg += 2;
	return kiln_hash(order->seed, alg, strlen(alg));
}

static void kiln_answered(struct kiln_subject *s, int answer)
{
	if (s->answered) {
		s->answered(s, answer);
		return;
	}
	if (answer == -EINPROGRESS)
		return;
	if (s->completions++)
		kiln_violates("completed-twice", "a request is completed %u times", s->completions);
	s->answer = answer;
	complete(&s->done);
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
static void kiln_subject_done(void *data, int answer)
{
	kiln_answered(data, answer);
}
#else
static void kiln_subject_done(struct crypto_async_request *request, int answer)
{
	kiln_answered(request->data, answer);
}
#endif

void kiln_subject_listen(struct kiln_subject *s)
{
	if (s->type == KILN_TYPE_SKCIPHER)
		skcipher_request_set_callback(s->request, s->flags, kiln_subject_done, s);
	else if (s->type == KILN_TYPE_AEAD)
		aead_request_set_callback(s->request, s->flags, kiln_subject_done, s);
	else
		ahash_request_set_callback(s->request, s->flags, kiln_subject_done, s);
}

bool kiln_subject_keyed(const struct kiln_subject *s)
{
	return s->type != KILN_TYPE_HASH ||
	       crypto_ahash_get_flags(s->tfm) & CRYPTO_TFM_NEED_KEY;
}

int kiln_subject_setkey(struct kiln_subject *s, const u8 *key, unsigned int len)
{
	switch (s->type) {
	case KILN_TYPE_SKCIPHER:
		return crypto_skcipher_setkey(s->tfm, key, len);
	case KILN_TYPE_AEAD:
		return crypto_aead_setkey(s->tfm, key, len);
	default:
		return crypto_ahash_setkey(s->tfm, key, len);
	}
}

unsigned int kiln_subject_key(u8 *key, unsigned int number, u64 *draw)
{
	/* Key lengths to try. The last one is for NHPoly1305. */
	static const u16 lengths[] = { 32, 64, 16, 36, 20, 24, 19, 35, 8, 4, 48, 128, 28, 40, 72,
				       KILN_LONGEST_KEY };
	/* Lengths of the second key within a key in authenc's format. */
	static const u8 second[] = { 32, 16, 36, 20, 24, 64, 8, 12, 48 };
	static const u8 first[] = { 32, 16 };
	struct rtattr *attribute = (void *)key;
	struct crypto_authenc_key_param *param = RTA_DATA(attribute);
	unsigned int len;

	if (number < ARRAY_SIZE(lengths)) {
		kiln_draw_bytes(draw, key, lengths[number]);
		return lengths[number];
	}
	number -= ARRAY_SIZE(lengths);
	if (number >= ARRAY_SIZE(second) * ARRAY_SIZE(first))
		return 0;
	len = first[number / ARRAY_SIZE(second)] + second[number % ARRAY_SIZE(second)];
	attribute->rta_len = RTA_LENGTH(sizeof(*param));
	attribute->rta_type = CRYPTO_AUTHENC_KEYA_PARAM;
	param->enckeylen = cpu_to_be32(second[number % ARRAY_SIZE(second)]);
	kiln_draw_bytes(draw, key + RTA_SPACE(sizeof(*param)), len);
	return RTA_SPACE(sizeof(*param)) + len;
}

static int kiln_try_aad(struct kiln_subject *s)
{
	static const u8 sizes[] = { 16, 20, 8, 12, 24, 0 };
	struct kiln_message m = {};
	u64 draw = 0;
	unsigned int i;
	int error = kiln_message_alloc(&m);

	for (i = 0; i < ARRAY_SIZE(sizes) && !error; i++) {
		s->aad = sizes[i];
		kiln_message_seal(s, &m, 64, s->aad, &draw);
		if (m.error != -EINVAL)
			break;
	}
	kiln_message_free(&m);
	return error;
}

int kiln_subject_find_key(struct kiln_subject *s)
{
	u64 draw = kiln_seed_of(s->order);
	static u8 key[KILN_LONGEST_KEY];
	unsigned int i, len;
	int error = -EINVAL;

	if (!kiln_subject_keyed(s))
		return 0;
	for (i = 0; error; i++) {
		len = kiln_subject_key(key, i, &draw);
		if (!len)
			return error;
		kfree(s->key);
		s->key = kmemdup(key, len, GFP_KERNEL);
		if (!s->key)
			return -ENOMEM;
		s->key_len = len;
		error = kiln_subject_setkey(s, s->key, len);
		if (error == -ENOMEM)
			return error;
	}
	return s->type == KILN_TYPE_AEAD ? kiln_try_aad(s) : 0;
}

int kiln_subject_alloc(struct kiln_subject *s, const struct kiln_examine *order)
{
	const u32 internal = order->internal ? CRYPTO_ALG_INTERNAL : 0;

	memset(s, 0, sizeof(*s));
	s->order = order;
	s->type = order->type;
	s->flags = CRYPTO_TFM_REQ_MAY_SLEEP | CRYPTO_TFM_REQ_MAY_BACKLOG;
	init_completion(&s->done);
	if (s->type == KILN_TYPE_SKCIPHER) {
		struct crypto_skcipher *tfm = crypto_alloc_skcipher(order->name, internal, internal);

		if (IS_ERR(tfm))
			return PTR_ERR(tfm);
		s->iv = crypto_skcipher_ivsize(tfm);
		s->block = crypto_skcipher_blocksize(tfm);
		s->tfm = tfm;
	} else if (s->type == KILN_TYPE_AEAD) {
		struct crypto_aead *tfm = crypto_alloc_aead(order->name, internal, internal);

		if (IS_ERR(tfm))
			return PTR_ERR(tfm);
		s->iv = crypto_aead_ivsize(tfm);
		s->block = crypto_aead_blocksize(tfm);
		s->tag = crypto_aead_authsize(tfm);
		s->tfm = tfm;
	} else {
		struct crypto_ahash *tfm = crypto_alloc_ahash(order->name, internal, internal);

		if (IS_ERR(tfm))
			return PTR_ERR(tfm);
		s->block = crypto_tfm_alg_blocksize(crypto_ahash_tfm(tfm));
		s->digest = crypto_ahash_digestsize(tfm);
		s->state = crypto_ahash_statesize(tfm);
		s->tfm = tfm;
	}
	return 0;
}

int kiln_subject_request(struct kiln_subject *s)
{
	unsigned int size;

	if (s->type == KILN_TYPE_SKCIPHER)
		size = sizeof(struct skcipher_request) + crypto_skcipher_reqsize(s->tfm);
	else if (s->type == KILN_TYPE_AEAD)
		size = sizeof(struct aead_request) + crypto_aead_reqsize(s->tfm);
	else
		size = sizeof(struct ahash_request) + crypto_ahash_reqsize(s->tfm);
	s->request = kmalloc(size, GFP_KERNEL);
	if (!s->request)
		return -ENOMEM;
	/*
	 * Clear the request, but not the driver's context that follows, because callers need not
	 * clear that context.
	 */
	if (s->type == KILN_TYPE_SKCIPHER) {
		memset(s->request, 0, sizeof(struct skcipher_request));
		skcipher_request_set_tfm(s->request, s->tfm);
		s->is_async = !!(crypto_skcipher_tfm(s->tfm)->__crt_alg->cra_flags & CRYPTO_ALG_ASYNC);
	} else if (s->type == KILN_TYPE_AEAD) {
		memset(s->request, 0, sizeof(struct aead_request));
		aead_request_set_tfm(s->request, s->tfm);
		s->is_async = !!(crypto_aead_tfm(s->tfm)->__crt_alg->cra_flags & CRYPTO_ALG_ASYNC);
	} else {
		memset(s->request, 0, sizeof(struct ahash_request));
		ahash_request_set_tfm(s->request, s->tfm);
		s->is_async = !!(crypto_ahash_tfm(s->tfm)->__crt_alg->cra_flags & CRYPTO_ALG_ASYNC);
	}
	return 0;
}

void kiln_subject_close(struct kiln_subject *s)
{
	kfree(s->request);
	kfree(s->key);
	if (s->tfm) {
		if (s->type == KILN_TYPE_SKCIPHER)
			crypto_free_skcipher(s->tfm);
		else if (s->type == KILN_TYPE_AEAD)
			crypto_free_aead(s->tfm);
		else
			crypto_free_ahash(s->tfm);
	}
	s->request = s->key = s->tfm = NULL;
}

int kiln_subject_open(struct kiln_subject *s, const struct kiln_examine *order)
{
	int error;

	kiln_case.op = "open";
	error = kiln_subject_alloc(s, order);
	if (!error)
		error = kiln_subject_request(s);
	kiln_case.op = "setkey";
	if (!error)
		error = kiln_subject_find_key(s);
	if (error)
		kiln_subject_close(s);
	return error;
}

static int kiln_call_driver(struct kiln_subject *s, const struct kiln_call *c)
{
	if (s->type == KILN_TYPE_SKCIPHER) {
		skcipher_request_set_crypt(s->request, c->src, c->dst, c->len, c->iv);
		return c->decrypt ? crypto_skcipher_decrypt(s->request) :
				    crypto_skcipher_encrypt(s->request);
	}
	if (s->type == KILN_TYPE_AEAD) {
		aead_request_set_crypt(s->request, c->src, c->dst, c->len, c->iv);
		aead_request_set_ad(s->request, c->aad);
		return c->decrypt ? crypto_aead_decrypt(s->request) :
				    crypto_aead_encrypt(s->request);
	}
	ahash_request_set_crypt(s->request, c->src, c->result, c->len);
	return crypto_ahash_digest(s->request);
}

int kiln_submit(struct kiln_subject *s, const struct kiln_call *c)
{
	const int count = preempt_count();
	const bool usable = irq_fpu_usable(), irqs_off = irqs_disabled();
	int result;

	reinit_completion(&s->done);
	s->completions = 0;
	s->answer = -EINPROGRESS;
	kiln_subject_listen(s);
	result = kiln_call_driver(s, c);
	if (usable && !irq_fpu_usable()) {
		kiln_violates("unbalanced", "returns %d with an FPU section open", result);
		kernel_fpu_end();
	}
	if (irqs_disabled() != irqs_off)
		kiln_violates("unbalanced", "returns %d with interrupts %s", result, irqs_off ? "on" : "off");
	kiln_keep_count(count, "a request");
	return result;
}

int kiln_await(struct kiln_subject *s, int result)
{
	if (result != -EINPROGRESS && result != -EBUSY) {
		if (s->completions)
			kiln_violates("completed-twice", "a request returns %d and is completed, too",
				      result);
		return result;
	}
	wait_for_completion(&s->done);
	return s->answer;
}

int kiln_ask(struct kiln_subject *s, const struct kiln_call *c)
{
	return kiln_await(s, kiln_submit(s, c));
}

int kiln_hash_step(struct kiln_subject *s, const u8 *from, unsigned int len, u8 *result,
		   int (*step)(struct ahash_request *request))
{
	struct scatterlist sg;

	sg_init_one(&sg, from, len);
	ahash_request_set_crypt(s->request, &sg, result, len);
	reinit_completion(&s->done);
	s->completions = 0;
	return kiln_await(s, step(s->request));
}

int kiln_message_alloc(struct kiln_message *m)
{
	/*
	 * Use whole pages, so that under kiln_guard() buffers also begin at a page boundary.
	 * Otherwise, a message that fits into one page would be split across two, and a walk would
	 * have two steps.
	 */
	const size_t size = ALIGN(KILN_LONGEST + 256, PAGE_SIZE);

	m->text = kzalloc(size, GFP_KERNEL);
	m->sealed = kzalloc(size, GFP_KERNEL);
	m->room = kzalloc(size, GFP_KERNEL);
	m->opened = kzalloc(size, GFP_KERNEL);
	m->written = kzalloc(size, GFP_KERNEL);
	return m->text && m->sealed && m->room && m->opened && m->written ? 0 : -ENOMEM;
}

void kiln_message_free(struct kiln_message *m)
{
	kfree(m->text);
	kfree(m->sealed);
	kfree(m->room);
	kfree(m->opened);
	kfree(m->written);
	memset(m, 0, sizeof(*m));
}

unsigned int kiln_message_sealed(const struct kiln_subject *s, const struct kiln_message *m)
{
	return s->type == KILN_TYPE_HASH ? s->digest : m->aad + m->len + s->tag;
}

void kiln_message_seal(struct kiln_subject *s, struct kiln_message *m, unsigned int len,
		       unsigned int aad, u64 *draw)
{
	struct scatterlist src, dst;
	struct kiln_call call = { .src = &src, .dst = &dst, .len = len, .aad = aad,
				  .iv = m->iv_out, .result = m->sealed };

	m->len = len;
	m->aad = aad;
	kiln_draw_bytes(draw, m->text, aad + len);
	kiln_draw_bytes(draw, m->iv, sizeof(m->iv));
	m->iv[0] = 3;		/* for CCM: size of the length field minus 1 */
	/* RFC 4106 and similar templates read the IV from the end of the associated data. */
	if (aad >= s->iv)
		memcpy(m->text + aad - s->iv, m->iv, s->iv);
	memcpy(m->iv_out, m->iv, sizeof(m->iv));
	memcpy(m->sealed, m->text, aad);
	sg_init_one(&src, m->text, aad + len);
	sg_init_one(&dst, m->sealed, aad + len + s->tag);
	m->error = kiln_ask(s, &call);
}

/*
 * Decrypts twice, into buffers that were first filled with different bytes. Where the two results
 * differ, the driver has not written to the buffer. For example, an IV generator does not write the
 * IV.
 */
void kiln_message_open(struct kiln_subject *s, struct kiln_message *m)
{
	const unsigned int open = m->aad + m->len, sealed = open + s->tag;
	struct scatterlist src, dst;
	struct kiln_call call = { .src = &src, .dst = &dst, .len = sealed - m->aad,
				  .aad = m->aad, .iv = m->iv_out, .decrypt = true };
	unsigned int i;

	sg_init_one(&src, m->sealed, sealed);
	memcpy(m->iv_out, m->iv, sizeof(m->iv));
	memset(m->opened, 0, open);
	sg_init_one(&dst, m->opened, open);
	m->open_error = kiln_ask(s, &call);
	memcpy(m->iv_out, m->iv, sizeof(m->iv));
	memset(m->room, 0xff, open);
	sg_init_one(&dst, m->room, open);
	kiln_ask(s, &call);
	for (i = 0; i < open; i++)
		m->written[i] = m->opened[i] == m->room[i];
}
