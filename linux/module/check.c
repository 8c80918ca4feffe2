// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Tests an implementation before it is registered. The tests run on this CPU, in FPU sections of
 * this kernel.
 */
#include <linux/ktime.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "check.h"
#include "known.h"
#include "section.h"

enum {
	LONGEST = KILN_SECTION_BYTES,
	/* Longest key to try for an algorithm without a maximum key length. */
	ANY_KEY = 131,
	/* Argument of key_length() for comparing a driver with its clone. */
	KEY = 16,
	MAX_KEY = 2048,
	MAX_TAG = 64,
	/* Every length up to this is tested. It exceeds twice the largest step of any tier. */
	EVERY = 288,
	TIMES = 16,
};

static const u16 lengths[] __initconst = { 511,	 512,  513,  767,  1023, 1024, 1025,
					   1420, 2047, 2048, 2064, 4080, 4095, 4096 };

/* All buffers of a check, in one allocation. The text buffer has space for a misaligned start. */
struct room {
	u8 ctx[KILN_MAX_CTX] __aligned(KILN_ALIGN);
	u8 state[KILN_MAX_STATE] __aligned(KILN_ALIGN);
	u8 text[LONGEST + KILN_ALIGN], aad[KILN_ALIGN], key[MAX_KEY];
	u8 want[LONGEST], found[LONGEST], back[LONGEST];
	u8 iv[KILN_MAX_IV], iv_want[KILN_MAX_IV], iv_found[KILN_MAX_IV];
	u8 tag_want[MAX_TAG], tag_found[MAX_TAG];
};

/* A message. Its pointers refer to struct room or to the known answers. */
struct text {
	const u8 *iv, *aad, *text;
	u32 ivlen, aadlen, len, taglen;
};

/* How to process a message: in one call, or in two pieces, split at the offset cut_of(). */
struct way {
	const struct kiln_impl *impl;
	bool decrypt, pieces;
};

static u32 __init cut_of(const struct kiln_impl *impl, u32 len)
{
	const u32 block = impl->kind == KILN_SKCIPHER && impl->cipher.first ? impl->ivsize : KILN_PIECE;
	const u32 half = rounddown(len / 2, block);

	/* Hashes can be split at any byte. */
	return impl->kind == KILN_HASH ? len / 3 : half;
}

static void __init skcipher(struct room *r, const struct way *way, const struct text *m, u8 *dst,
			    u8 *iv)
{
	const struct kiln_cipher_ops *ops = &way->impl->cipher;
	const u32 cut = way->pieces ? cut_of(way->impl, m->len) : 0;
	kiln_crypt_t *crypt = way->decrypt ? ops->decrypt : ops->encrypt;

	memcpy(iv, m->iv, m->ivlen);
	if (way->pieces && ops->first) {
		ops->first(r->ctx, iv);
		crypt = way->decrypt ? ops->decrypt_piece : ops->encrypt_piece;
	}
	if (cut)
		crypt(r->ctx, dst, m->text, cut, iv);
	if (m->len - cut)
		crypt(r->ctx, dst + cut, m->text + cut, m->len - cut, iv);
	/*
	 * In modes with a tweak, functions for pieces leave a tweak in @iv, but functions for whole
	 * messages leave the IV unchanged. Restore the IV, so that both give the same result.
	 */
	if (ops->first)
		memcpy(iv, m->iv, m->ivlen);
}

static void __init aead_pieces(struct room *r, const struct way *way, const struct text *m,
			       u8 *dst, u8 *tag)
{
	const struct kiln_aead_ops *ops = &way->impl->aead;
	const u32 cut = cut_of(way->impl, m->len), aadcut = m->aadlen / 3;

	ops->begin(r->ctx, r->state, m->iv, m->aadlen, m->len, m->taglen);
	if (aadcut)
		ops->aad(r->ctx, r->state, m->aad, aadcut);
	if (m->aadlen - aadcut)
		ops->aad(r->ctx, r->state, m->aad + aadcut, m->aadlen - aadcut);
	if (cut)
		(way->decrypt ? ops->decrypt : ops->encrypt)(r->ctx, r->state, dst, m->text, cut);
	if (m->len - cut)
		(way->decrypt ? ops->decrypt : ops->encrypt)(r->ctx, r->state, dst + cut,
							     m->text + cut, m->len - cut);
	ops->end(r->ctx, r->state, tag, m->taglen);
}

static void __init hash(struct room *r, const struct way *way, const struct text *m, u8 *tag)
{
	const struct kiln_hash_ops *ops = &way->impl->hash;
	const void *ctx = way->impl->setkey ? r->ctx : NULL;
	const u32 cut = cut_of(way->impl, m->len);

	if (!way->pieces) {
		ops->digest(ctx, m->text, m->len, tag);
		return;
	}
	ops->init(ctx, r->state);
	ops->update(ctx, r->state, m->text, cut);
	ops->update(ctx, r->state, m->text + cut, m->len - cut);
	ops->final(ctx, r->state, tag);
}

/* Processes the message. Returns false if no FPU section can be opened. */
static bool __init process(struct room *r, const struct way *way, const struct text *m, u8 *dst,
			   u8 *iv, u8 *tag)
{
	const bool simd = way->impl->tier != KILN_TIER_GENERIC;

	if (simd && !kiln_section_begin())
		return false;
	switch (way->impl->kind) {
	case KILN_SKCIPHER:
		skcipher(r, way, m, dst, iv);
		break;
	case KILN_AEAD:
		if (way->pieces || way->decrypt)
			aead_pieces(r, way, m, dst, tag);
		else
			way->impl->aead.seal(r->ctx, dst, m->text, m->len, m->aad, m->aadlen, m->iv, tag,
					     m->taglen);
		break;
	default:
		hash(r, way, m, tag);
	}
	if (simd)
		kiln_section_end();
	return true;
}

static int __init open_sealed(struct room *r, const struct kiln_impl *impl, const struct text *m,
			      u8 *dst, const u8 *tag)
{
	const bool simd = impl->tier != KILN_TIER_GENERIC;
	int err;

	if (simd && !kiln_section_begin())
		return -EBUSY;
	err = impl->aead.open(r->ctx, dst, m->text, m->len, m->aad, m->aadlen, m->iv, tag,
			      m->taglen);
	if (simd)
		kiln_section_end();
	return err;
}

/* Decrypts a message, and then the same message with a forged tag, which must be rejected. */
static const char *__init try_open(struct room *r, const struct kiln_impl *impl,
				   const struct text *m, const u8 *cipher, const u8 *tag)
{
	struct text sealed = *m;

	sealed.text = cipher;
	if (open_sealed(r, impl, &sealed, r->back, tag))
		return "refuses a message that is genuine";
	if (memcmp(r->back, m->text, m->len))
		return "decrypts wrongly";
	memcpy(r->tag_found, tag, m->taglen);
	r->tag_found[m->len % m->taglen] ^= 0x10;
	if (open_sealed(r, impl, &sealed, r->back, r->tag_found) != -EBADMSG)
		return "accepts a forged tag";
	return NULL;
}

/*
 * Processes the message with @impl, in one call and in pieces, and compares the results with
 * @cipher and @tag. @iv is the IV expected after the call, or NULL if the IV is not compared.
 */
static const char *__init try_all(struct room *r, const struct kiln_impl *impl,
				  const struct text *m, const u8 *cipher, const u8 *iv,
				  const u8 *tag)
{
	const bool text = impl->kind != KILN_HASH;
	const bool decrypts = text;
	struct text back = *m;
	u32 i;

	back.text = cipher;
	for (i = 0; i < (decrypts ? 4 : 2); i++) {
		const struct way way = { .impl = impl, .pieces = i & 1, .decrypt = i & 2 };
		const struct text *in = way.decrypt ? &back : m;

		/* Skip messages that are too short for two pieces. */
		if (way.pieces && impl->kind == KILN_SKCIPHER && m->len < 2 * KILN_PIECE)
			continue;
		if (!process(r, &way, in, r->found, r->iv_found, r->tag_found))
			return "finds no FPU section";
		if (text && memcmp(r->found, way.decrypt ? m->text : cipher, m->len))
			return way.decrypt ? "decrypts wrongly" : "encrypts wrongly";
		if (iv && memcmp(r->iv_found, iv, m->ivlen))
			return "leaves a wrong IV";
		if (tag && memcmp(r->tag_found, tag, m->taglen))
			return "computes a wrong tag or digest";
	}
	return impl->kind == KILN_AEAD ? try_open(r, impl, m, cipher, tag) : NULL;
}

static const char *__init known_answers(struct room *r, const struct kiln_impl *impl)
{
	u32 i, tried = 0;

	for (i = 0; i < ARRAY_SIZE(kiln_known); i++) {
		const struct kiln_known *k = &kiln_known[i];
		const u8 *at = kiln_known_bytes + k->at;
		const char *fault;
		struct text m = { .ivlen = k->iv, .aadlen = k->aad, .len = k->text, .taglen = k->tag };

		if (strcmp(k->alg, impl->alg))
			continue;
		if (impl->setkey && impl->setkey(r->ctx, at, k->key))
			return "refuses the key of a known answer";
		m.iv = at + k->key;
		m.aad = m.iv + k->iv;
		m.text = m.aad + k->aad;
		at = m.text + k->text;
		/* Do not compare the resulting IV, because the known answers do not include it. */
		fault = try_all(r, impl, &m, at, NULL, impl->kind == KILN_SKCIPHER ? NULL : at + k->cipher);
		if (fault)
			return fault;
		tried++;
	}
	return tried ? NULL : "has no known answer";
}

/* Returns the @n-th key length, cycling through all lengths; 0 for algorithms without a key. */
static u32 __init key_length(const struct kiln_impl *impl, u32 n)
{
	const u32 max = impl->key_max == KILN_ANY_KEY ? ANY_KEY : min_t(u32, impl->key_max, MAX_KEY);
	const u32 step = impl->key_step ?: 1;

	return impl->key_min + n % ((max - impl->key_min) / step + 1) * step;
}

static const char *__init compare_length(struct room *r, const struct kiln_impl *impl,
					 const struct kiln_impl *scalar, u32 len, u32 n)
{
	const struct way way = { .impl = scalar };
	const u32 key = key_length(impl, n);
	const struct text m = {
		.iv = r->iv,
		.aad = r->aad,
		.text = r->text + n % KILN_ALIGN,
		.ivlen = impl->ivsize,
		.aadlen = impl->kind == KILN_AEAD ? n % 41 : 0,
		.len = len,
		.taglen = impl->digestsize,
	};
	const bool skcipher = impl->kind == KILN_SKCIPHER;

	get_random_bytes(r->key, key);
	get_random_bytes(r->iv, sizeof(r->iv));
	get_random_bytes(r->aad, sizeof(r->aad));
	get_random_bytes(r->text, sizeof(r->text));
	/* For CCM, the first byte of the IV is the size of the length field minus 1. */
	if (strstarts(impl->alg, "ccm("))
		r->iv[0] = 3;
	if (impl->setkey && impl->setkey(r->ctx, r->key, key))
		return "refuses a key";
	process(r, &way, &m, r->want, r->iv_want, r->tag_want);
	return try_all(r, impl, &m, r->want, skcipher ? r->iv_want : NULL,
		       skcipher ? NULL : r->tag_want);
}

static const char *__init compare(struct room *r, const struct kiln_impl *impl,
				  const struct kiln_impl *scalar)
{
	u32 n;

	for (n = 0; n <= EVERY + ARRAY_SIZE(lengths); n++) {
		const u32 len = n <= EVERY ? n : lengths[n - EVERY - 1];
		const char *fault;

		if (impl->kind == KILN_SKCIPHER && (len % impl->blocksize || len < impl->shortest))
			continue;
		fault = compare_length(r, impl, scalar, len, n);
		if (fault)
			return fault;
		cond_resched();
	}
	return NULL;
}

const char *__init kiln_check(const struct kiln_alg *alg)
{
	void *memory = kzalloc(sizeof(struct room) + KILN_ALIGN, GFP_KERNEL);
	const char *fault;
	struct room *r;

	if (!memory)
		return "cannot be tested: no memory";
	r = kiln_aligned(memory);
	fault = known_answers(r, alg->impl);
	if (!fault && alg->scalar)
		fault = known_answers(r, alg->scalar);
	if (!fault)
		fault = compare(r, alg->impl, alg->scalar ?: alg->impl);
	kfree_sensitive(memory);
	return fault;
}

#ifdef KILN_SHASH_CLONES
static const char *__init compare_clone(struct room *r, struct crypto_shash *tfm, u32 key)
{
	struct crypto_shash *clone;
	const char *fault = NULL;

	get_random_bytes(r->key, key);
	get_random_bytes(r->text, sizeof(r->text));
	if (crypto_shash_setkey(tfm, r->key, key) ||
	    crypto_shash_tfm_digest(tfm, r->text, EVERY, r->tag_want))
		return "computes no digest";
	clone = crypto_clone_shash(tfm);
	if (IS_ERR(clone))
		return "cannot be cloned";
	if (crypto_shash_tfm_digest(clone, r->text, EVERY, r->tag_found) ||
	    memcmp(r->tag_found, r->tag_want, crypto_shash_digestsize(tfm)))
		fault = "has clones that compute a wrong digest";
	crypto_free_shash(clone);
	return fault;
}

const char *__init kiln_check_clone(const struct kiln_alg *alg)
{
	struct crypto_shash *tfm;
	const char *fault;
	struct room *r;

	if (alg->impl->kind != KILN_HASH || !alg->shash.clone_tfm)
		return NULL;
	r = kzalloc(sizeof(*r), GFP_KERNEL);
	if (!r)
		return "cannot be tested: no memory";
	tfm = crypto_alloc_shash(alg->shash.base.cra_driver_name, 0, 0);
	if (IS_ERR(tfm)) {
		fault = "cannot be allocated";
	} else {
		fault = compare_clone(r, tfm, key_length(alg->impl, KEY));
		crypto_free_shash(tfm);
	}
	kfree_sensitive(r);
	return fault;
}
#else
const char *__init kiln_check_clone(const struct kiln_alg *alg)
{
	return NULL;
}
#endif

u32 __init kiln_bytes_within(const struct kiln_alg *alg, u32 us)
{
	const struct kiln_impl *impl = alg->impl;
	const struct way way = { .impl = impl };
	void *memory = kzalloc(sizeof(struct room) + KILN_ALIGN, GFP_KERNEL);
	u64 least = ~0ull, bytes;
	struct room *r;
	struct text m;
	u32 i;

	if (!memory)
		return KILN_SECTION_LEAST;
	r = kiln_aligned(memory);
	m = (struct text){ .iv = r->iv, .text = r->text, .aad = r->aad, .ivlen = impl->ivsize,
			   .len = LONGEST, .taglen = impl->digestsize };
	get_random_bytes(r->key, sizeof(r->key));
	if (strstarts(impl->alg, "ccm("))
		r->iv[0] = 3;
	if (impl->setkey)
		impl->setkey(r->ctx, r->key, key_length(impl, ~0u));
	for (i = 0; i < TIMES; i++) {
		const u64 from = ktime_get_ns();

		process(r, &way, &m, r->found, r->iv_found, r->tag_found);
		least = min(least, ktime_get_ns() - from);
	}
	kfree_sensitive(memory);
	bytes = div64_u64(1000ull * us * LONGEST, max(least, 1ull));
	return clamp_t(u64, round_down(bytes, KILN_PIECE), KILN_SECTION_LEAST, KILN_SECTION_BYTES);
}
