// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * xts(aes) for the crypto API: each implementation as an algorithm of its own, those with
 * vector registers also as an internal one behind the simd helper.
 */
#include <kiln/budget.h>
#include <kiln/cpufeature.h>
#include <kiln/crypto.h>
#include <kiln/fpu.h>
#include <kiln/kiln.h>
#include <kiln/slab.h>
#include <kiln/string.h>

#include "../ciphers/xts/xts.h"

static int xts_alg_setkey(struct crypto_tfm *tfm, const u8 *key, u32 len)
{
	return xts_setkey(crypto_tfm_ctx(tfm), key, len);
}

/* In pieces, and in as many sections as the way of cutting has it. */
static noinline int crypt_pieces(struct crypto_request *req, struct fpu_budget *budget,
				 const bool decrypt)
{
	const struct xts_key *key = crypto_tfm_ctx(req->tfm);
	const struct kiln_xts_impl *impl = req->tfm->alg->impl;
	u8 tweak[AES_BLOCK_SIZE] __aligned(16);
	struct skcipher_walk walk;
	struct fpu_cut cut;
	int err;

	err = skcipher_walk_text(&walk, req, req->cryptlen, WALK_BLOCK);
	if (err)
		return err;
	memcpy(tweak, req->iv, sizeof(tweak));
	fpu_cut_open(&cut, budget);
	impl->first_tweak(key, tweak);
	while (walk.total) {
		skcipher_walk_next(&walk, fpu_cut_room(&cut));
		(decrypt ? impl->decrypt_from : impl->encrypt_from)(
			key, walk.dst, walk.src, walk.nbytes, tweak);
		if (walk.nbytes < walk.total)
			xts_tweak_advance(tweak, walk.nbytes / AES_BLOCK_SIZE);
		fpu_cut_spent(&cut, walk.nbytes);
		skcipher_walk_done(&walk);
	}
	fpu_cut_close(&cut);
	memzero_explicit(tweak, sizeof(tweak));
	return 0;
}

/* One piece on either side is one call, as far as one section may hold it. */
static __always_inline int crypt(struct crypto_request *req, const bool simd,
				 const bool decrypt)
{
	const struct kiln_xts_impl *impl = req->tfm->alg->impl;
	struct fpu_budget *const budget = simd ? &req->tfm->alg->budget[decrypt] : NULL;
	const u32 len = req->cryptlen;

	if (unlikely(len < AES_BLOCK_SIZE))
		return -EINVAL;
	if (unlikely(req->src->length < len || req->dst->length < len ||
		     (simd && len > budget->most)))
		return crypt_pieces(req, budget, decrypt);
	if (simd)
		kernel_fpu_begin();
	(decrypt ? impl->decrypt : impl->encrypt)(crypto_tfm_ctx(req->tfm),
						  req->dst->addr, req->src->addr, len,
						  req->iv);
	if (simd)
		kernel_fpu_end();
	return 0;
}

static int encrypt_simd(struct crypto_request *req)
{
	return crypt(req, true, false);
}

static int decrypt_simd(struct crypto_request *req)
{
	return crypt(req, true, true);
}

static int encrypt_scalar(struct crypto_request *req)
{
	return crypt(req, false, false);
}

static int decrypt_scalar(struct crypto_request *req)
{
	return crypt(req, false, true);
}

static int add(const struct kiln_xts_impl *impl, const char *prefix, u32 models, u32 flags,
	       struct crypto_alg **added)
{
	struct crypto_alg *alg = crypto_alg_new("xts(aes)", impl->driver, prefix);
	const bool simd = impl->tier != KILN_TIER_GENERIC;

	if (!alg)
		return -ENOMEM;
	alg->flags = flags | CRYPTO_ALG_TYPE_SKCIPHER;
	alg->models = models;
	alg->priority = (int)impl->priority;
	alg->tier = impl->tier;
	alg->ctxsize = sizeof(struct xts_key);
	alg->ivsize = AES_BLOCK_SIZE;
	alg->budget = fpu_budget_of_driver(impl->driver);
	alg->setkey = xts_alg_setkey;
	alg->encrypt = simd ? encrypt_simd : encrypt_scalar;
	alg->decrypt = simd ? decrypt_simd : decrypt_scalar;
	alg->impl = impl;
	*added = alg;
	return crypto_alg_add(alg);
}

int xts_register(void)
{
	struct crypto_alg *alg;
	int err = 0;
	size_t i;

	for (i = 0; i < kiln_xts_impls() && !err; i++) {
		const struct kiln_xts_impl *impl = kiln_xts_impl(i);

		if (impl->tier == KILN_TIER_GENERIC) {
			err = add(impl, "", CRYPTO_MODEL_ALL, 0, &alg);
			continue;
		}
		err = add(impl, "__", CRYPTO_MODEL_ALL, CRYPTO_ALG_INTERNAL, &alg);
		if (!err)
			err = simd_register(alg);
		if (!err)
			err = add(impl, "", CRYPTO_MODEL_DIRECT, 0, &alg);
	}
	return err;
}
