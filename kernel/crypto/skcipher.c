// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Requests to a skcipher of ciphers/.
 */
#include <kiln/budget.h>
#include <kiln/cpufeature.h>
#include <kiln/crypto.h>
#include <kiln/fpu.h>
#include <kiln/kiln.h>

static int setkey(struct crypto_tfm *tfm, const u8 *key, u32 len)
{
	const struct kiln_impl *impl = tfm->alg->impl;

	return impl->setkey(crypto_tfm_ctx(tfm), key, len);
}

/* In pieces, and in as many sections as the way of cutting has it. */
static noinline int crypt_pieces(struct crypto_request *req, kiln_crypt_t *fn,
				 struct fpu_budget *budget)
{
	struct skcipher_walk walk;
	struct fpu_cut cut;
	int err;

	err = skcipher_walk_text(&walk, req, req->cryptlen, WALK_MAX_BLOCK);
	if (err)
		return err;
	fpu_cut_open(&cut, budget);
	while (walk.total) {
		skcipher_walk_next(&walk, fpu_cut_room(&cut));
		fn(crypto_tfm_ctx(req->tfm), walk.dst, walk.src, walk.nbytes, req->iv);
		fpu_cut_spent(&cut, walk.nbytes);
		skcipher_walk_done(&walk);
	}
	fpu_cut_close(&cut);
	return 0;
}

static __always_inline int crypt(struct crypto_request *req, const bool simd,
				 const bool decrypt)
{
	const struct kiln_impl *impl = req->tfm->alg->impl;
	kiln_crypt_t *const fn = decrypt ? impl->cipher.decrypt : impl->cipher.encrypt;
	struct fpu_budget *const budget = simd ? &req->tfm->alg->budget[decrypt] : NULL;
	const u32 len = req->cryptlen;

	if (unlikely(len < impl->shortest || len % impl->blocksize))
		return -EINVAL;
	if (unlikely(!len))
		return 0;
	if (unlikely(req->src->length < len || req->dst->length < len ||
		     (simd && len > budget->most)))
		return crypt_pieces(req, fn, budget);
	if (simd)
		kernel_fpu_begin();
	fn(crypto_tfm_ctx(req->tfm), req->dst->addr, req->src->addr, len, req->iv);
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

void skcipher_ops(struct crypto_alg *alg, const struct kiln_impl *impl)
{
	const bool simd = impl->tier != KILN_TIER_GENERIC;

	alg->flags |= CRYPTO_ALG_TYPE_SKCIPHER;
	alg->budget = fpu_budget_of(impl);
	alg->setkey = setkey;
	alg->encrypt = simd ? encrypt_simd : encrypt_scalar;
	alg->decrypt = simd ? decrypt_simd : decrypt_scalar;
}
