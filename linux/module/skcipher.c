// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Processes Linux's skcipher requests with the implementations in ciphers/. */
#include <crypto/xts.h>

#include "alg.h"
#include "section.h"
#include "walk.h"

static const struct kiln_alg *alg_of(struct crypto_skcipher *tfm)
{
	return container_of(crypto_skcipher_alg(tfm), struct kiln_alg, skcipher);
}

static void *ctx_of(struct crypto_skcipher *tfm)
{
	return kiln_aligned(crypto_skcipher_ctx(tfm));
}

static int setkey(struct crypto_skcipher *tfm, const u8 *key, unsigned int len)
{
	return alg_of(tfm)->impl->setkey(ctx_of(tfm), key, len);
}

/* Applies Linux's rules for XTS keys, for example that the two halves must differ. */
static int xts_setkey(struct crypto_skcipher *tfm, const u8 *key, unsigned int len)
{
	const int err = xts_verify_key(tfm, key, len);

	return err ?: setkey(tfm, key, len);
}

static kiln_crypt_t *whole(const struct kiln_impl *impl, bool decrypt)
{
	return decrypt ? impl->cipher.decrypt : impl->cipher.encrypt;
}

static kiln_crypt_t *piece(const struct kiln_impl *impl, bool decrypt)
{
	return decrypt ? impl->cipher.decrypt_piece : impl->cipher.encrypt_piece;
}

/*
 * Processes a request in pieces. In XTS only the first piece can start from an IV. Therefore a
 * tweak is computed from the IV first, and each piece updates the tweak for the next piece.
 */
static noinline int crypt_pieces(struct skcipher_request *req, bool decrypt)
{
	struct crypto_skcipher *tfm = crypto_skcipher_reqtfm(req);
	const struct kiln_alg *alg = alg_of(tfm);
	const bool tweaked = alg->impl->cipher.first;
	u8 tweak[KILN_MAX_IV] __aligned(16), *iv = tweaked ? tweak : req->iv;
	const void *ctx = ctx_of(tfm);
	struct kiln_steps steps;
	struct kiln_walk walk;

	kiln_walk_first(&walk, req->src, req->dst, 0, req->cryptlen,
			tweaked ? alg->impl->ivsize : KILN_PIECE, alg->section_bytes);
	kiln_steps_begin(&steps, alg, skcipher_request_flags(req));
	if (tweaked) {
		memcpy(tweak, req->iv, alg->impl->ivsize);
		steps.impl->cipher.first(ctx, tweak);
	}
	for (; walk.nbytes; kiln_walk_next(&walk)) {
		const struct kiln_impl *impl = kiln_step(&steps, walk.nbytes);

		(tweaked ? piece(impl, decrypt) : whole(impl, decrypt))(ctx, walk.dst, walk.src,
									walk.nbytes, iv);
	}
	kiln_steps_end(&steps);
	if (tweaked)
		memzero_explicit(tweak, sizeof(tweak));
	return 0;
}

static int crypt(struct skcipher_request *req, bool decrypt)
{
	struct crypto_skcipher *tfm = crypto_skcipher_reqtfm(req);
	const struct kiln_alg *alg = alg_of(tfm);
	const u32 len = req->cryptlen;
	const struct kiln_impl *impl;
	u8 *src, *dst;

	if (len < alg->impl->shortest || len % alg->impl->blocksize)
		return -EINVAL;
	if (!len)
		return 0;
	src = kiln_piece(req->src, 0, len);
	dst = kiln_piece(req->dst, 0, len);
	if (!src || !dst || len > alg->section_bytes)
		return crypt_pieces(req, decrypt);
	impl = kiln_simd_begin(alg);
	whole(impl, decrypt)(ctx_of(tfm), dst, src, len, req->iv);
	kiln_simd_end(impl);
	return 0;
}

static int encrypt(struct skcipher_request *req)
{
	return crypt(req, false);
}

static int decrypt(struct skcipher_request *req)
{
	return crypt(req, true);
}

void kiln_skcipher_setup(struct kiln_alg *alg)
{
	const struct kiln_impl *impl = alg->impl;
	struct skcipher_alg *to = &alg->skcipher;
	const bool tweaked = impl->cipher.first;

	to->base.cra_ctxsize = kiln_room(impl->ctxsize);
	to->base.cra_blocksize = max(impl->blocksize, impl->shortest);
	to->min_keysize = impl->key_min;
	to->max_keysize = impl->key_max;
	to->ivsize = impl->ivsize;
	/* A stream cipher with a counter can be continued at any multiple of KILN_PIECE. */
	to->chunksize = impl->blocksize == 1 && !tweaked ? KILN_PIECE : 0;
	to->setkey = tweaked ? xts_setkey : setkey;
	to->encrypt = encrypt;
	to->decrypt = decrypt;
}
