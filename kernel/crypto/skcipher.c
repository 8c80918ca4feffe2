// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Processes requests to the skciphers in ciphers/. */
#include <kiln/abi/cipher.h>
#include <kiln/budget.h>
#include <kiln/cpufeature.h>
#include <kiln/crypto.h>
#include <kiln/fpu.h>
#include <kiln/string.h>

/*
 * Processes a request in pieces, and in as many sections as the budget requires. An IV cannot
 * describe a later piece of an XTS message, so the pieces use a tweak derived from the IV.
 */
static noinline int crypt_pieces(struct crypto_request *req, struct fpu_budget *budget,
				 const bool decrypt)
{
	const struct kiln_impl *impl = req->tfm->alg->impl;
	const struct kiln_cipher_ops *ops = &impl->cipher;
	kiln_crypt_t *fn = decrypt ? ops->decrypt : ops->encrypt;
	const void *ctx = crypto_tfm_ctx(req->tfm);
	u8 tweak[KILN_MAX_IV] __aligned(16), *iv = req->iv;
	struct skcipher_walk walk;
	struct fpu_cut cut;
	int err;

	err = skcipher_walk_text(&walk, req, req->cryptlen,
				 ops->first ? WALK_BLOCK : WALK_MAX_BLOCK);
	if (err)
		return err;
	fpu_cut_open(&cut, budget);
	if (ops->first) {
		fn = decrypt ? ops->decrypt_piece : ops->encrypt_piece;
		memcpy(tweak, iv, impl->ivsize);
		iv = tweak;
		ops->first(ctx, iv);
	}
	while (walk.total) {
		skcipher_walk_next(&walk, fpu_cut_room(&cut));
		fn(ctx, walk.dst, walk.src, walk.nbytes, iv);
		fpu_cut_spent(&cut, walk.nbytes);
		skcipher_walk_done(&walk);
	}
	fpu_cut_close(&cut);
	if (ops->first)
		memzero_explicit(tweak, sizeof(tweak));
	return 0;
}

static __always_inline int crypt(struct crypto_request *req, const bool simd,
				 const bool decrypt)
{
	const struct crypto_alg *alg = req->tfm->alg;
	const struct kiln_impl *impl = alg->impl;
	struct fpu_budget *const budget = simd ? &alg->budget[decrypt] : NULL;
	const u32 len = req->cryptlen;

	if (unlikely(len < alg->shortest || (len & alg->partial)))
		return len || impl->shortest ? -EINVAL : 0;
	if (unlikely(req->src->length < len || req->dst->length < len ||
		     (simd && len > budget->most)))
		return crypt_pieces(req, budget, decrypt);
	if (simd)
		kernel_fpu_begin();
	(decrypt ? impl->cipher.decrypt : impl->cipher.encrypt)(
		crypto_tfm_ctx(req->tfm), req->dst->addr, req->src->addr, len, req->iv);
	if (simd)
		kernel_fpu_end();
	return 0;
}

CRYPTO_ENTRY_POINTS(crypt)

void skcipher_ops(struct crypto_alg *alg, const struct kiln_impl *impl)
{
	const bool simd = impl->tier != KILN_TIER_GENERIC;

	alg->flags |= CRYPTO_ALG_TYPE_SKCIPHER;
	alg->shortest = impl->shortest ? impl->shortest : 1;
	alg->partial = impl->blocksize - 1;
	alg->encrypt = simd ? encrypt_simd : encrypt_scalar;
	alg->decrypt = simd ? decrypt_simd : decrypt_scalar;
}
