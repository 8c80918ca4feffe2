// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Calls of one implementation back to back, as a caller with a list of messages makes them, in
 * one FPU section unless skciphers are to have one each. There is a loop for each kind, so that what is between two calls is
 * no more than such a caller has.
 */
#include <kiln/fpu.h>
#include <kiln/kiln.h>
#include <kiln/string.h>

/* Where a call's parts are. */
struct at {
	u8 *dst;
	const u8 *src, *aad;
	u8 *iv, *tag;
	size_t i;
};

static __always_inline void start(const struct kiln_calls *c, struct at *at)
{
	at->dst = c->dst;
	at->src = c->src;
	at->aad = c->aad;
	at->iv = c->iv;
	at->tag = c->tag;
	at->i = 0;
}

/* True if it is the first message again. */
static __always_inline bool next(const struct kiln_calls *c, struct at *at)
{
	if (++at->i == c->count) {
		start(c, at);
		return true;
	}
	at->dst += c->dst_stride;
	at->src += c->src_stride;
	at->aad += c->aad_stride;
	at->iv += c->iv_stride;
	at->tag += c->tag_stride;
	return false;
}

/* Whether whole messages leave their IVs as they are. */
static bool keeps_iv(const struct kiln_calls *c)
{
	return c->impl->kind == KILN_SKCIPHER && c->impl->cipher.first;
}

/* Fresh IVs for the calls to come: each leaves another than it found. */
static void renew(const struct kiln_calls *c, u64 calls)
{
	const size_t n = calls < c->count ? calls : c->count;

	if (c->iv_stride)
		memcpy(c->iv, c->fresh, n * c->iv_stride);
}

/* @sections is a constant: the loop inside one section has nothing of the others. */
static __always_inline void crypt(const struct kiln_calls *c, const u32 sections)
{
	kiln_crypt_t *const crypt = c->decrypt ? c->impl->cipher.decrypt :
						 c->impl->cipher.encrypt;
	const bool kept = keeps_iv(c);
	struct at at;
	u64 n;

	start(c, &at);
	if (!kept)
		renew(c, c->calls);
	for (n = c->calls; n; n--) {
		if (sections == KILN_SECTION_EACH)
			kernel_fpu_begin();
		else if (sections == KILN_SECTION_EACH_UNTIMED)
			kernel_fpu_begin_untimed();
		crypt(c->ctx, at.dst, at.src, c->len, at.iv);
		if (sections == KILN_SECTION_EACH)
			kernel_fpu_end();
		else if (sections == KILN_SECTION_EACH_UNTIMED)
			kernel_fpu_end_untimed();
		if (next(c, &at) && !kept)
			renew(c, n - 1);
	}
}

static noinline void crypt_in_sections(const struct kiln_calls *c)
{
	if (c->sections == KILN_SECTION_EACH)
		crypt(c, KILN_SECTION_EACH);
	else
		crypt(c, KILN_SECTION_EACH_UNTIMED);
}

/* Each IV is the beginning of the last result. */
static void crypt_chained(const struct kiln_calls *c)
{
	kiln_crypt_t *const crypt = c->decrypt ? c->impl->cipher.decrypt :
						 c->impl->cipher.encrypt;
	const bool kept = keeps_iv(c);
	u8 copy[KILN_MAX_IV] __aligned(16);
	struct at at;
	u8 *iv = c->iv;
	u64 n;

	start(c, &at);
	if (!kept)
		renew(c, 1);
	for (n = c->calls; n; n--) {
		crypt(c->ctx, at.dst, at.src, c->len, iv);
		iv = at.dst;
		if (!kept) {
			memcpy(copy, at.dst, c->impl->ivsize);
			iv = copy;
		}
		next(c, &at);
	}
}

/* A queue of messages at a time, which is filled in for each call. */
static void crypt_many(const struct kiln_calls *c)
{
	kiln_crypt_many_t *const crypt = c->impl->cipher.encrypt_many;
	struct kiln_message queue[KILN_QUEUE];
	struct at at;
	size_t k = 0;
	u64 n;

	start(c, &at);
	renew(c, c->calls);
	for (n = c->calls; n; n--) {
		bool again;

		queue[k].dst = at.dst;
		queue[k].src = at.src;
		queue[k].len = c->len;
		queue[k].iv = at.iv;
		again = next(c, &at);
		if (++k < KILN_QUEUE && !again && n > 1)
			continue;
		crypt(c->ctx, queue, k);
		k = 0;
		if (again)
			renew(c, n - 1);
	}
}

static void seal(const struct kiln_calls *c)
{
	kiln_seal_t *const seal = c->impl->aead.seal;
	struct at at;
	u64 n;

	start(c, &at);
	for (n = c->calls; n; n--) {
		seal(c->ctx, at.dst, at.src, c->len, at.aad, c->aadlen, at.iv, at.tag,
		     c->tagsize);
		next(c, &at);
	}
}

static u64 open(const struct kiln_calls *c)
{
	kiln_open_t *const open = c->impl->aead.open;
	struct at at;
	u64 n, refused = 0;

	start(c, &at);
	for (n = c->calls; n; n--) {
		refused += open(c->ctx, at.dst, at.src, c->len, at.aad, c->aadlen, at.iv,
				at.tag, c->tagsize) != 0;
		next(c, &at);
	}
	return refused;
}

static void digest(const struct kiln_calls *c)
{
	void (*const digest)(const void *, const u8 *, size_t, u8 *) = c->impl->hash.digest;
	struct at at;
	u64 n;

	start(c, &at);
	for (n = c->calls; n; n--) {
		digest(c->ctx, at.src, c->len, at.tag);
		next(c, &at);
	}
}

u64 kiln_calls_run(void *arg)
{
	struct kiln_calls c = *(const struct kiln_calls *)arg;
	const bool simd = c.impl->tier != KILN_TIER_GENERIC;
	const bool apart = simd && c.sections != KILN_ONE_SECTION;
	u64 refused = 0;

	if (!kiln_text_fits(c.impl, c.len))
		return c.calls;
	/* Who leaves IVs as they are reads them where they are. */
	if (c.impl->kind == KILN_AEAD || keeps_iv(&c))
		c.iv = (u8 *)c.fresh;
	if (apart) {
		crypt_in_sections(&c);
		return 0;
	}
	if (simd)
		kernel_fpu_begin();
	switch (c.impl->kind) {
	case KILN_SKCIPHER:
		if (c.many)
			crypt_many(&c);
		else if (c.chained)
			crypt_chained(&c);
		else
			crypt(&c, KILN_ONE_SECTION);
		break;
	case KILN_AEAD:
		if (c.decrypt)
			refused = open(&c);
		else
			seal(&c);
		break;
	default:
		digest(&c);
	}
	if (simd)
		kernel_fpu_end();
	return refused;
}
