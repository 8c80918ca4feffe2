// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Requests to a skcipher of ciphers/, as Linux makes them.
 */
#include <crypto/scatterwalk.h>
#include <crypto/xts.h>

#include "alg.h"
#include "section.h"

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

/* With Linux's own rules for the halves of a key. */
static int xts_setkey(struct crypto_skcipher *tfm, const u8 *key, unsigned int len)
{
	const int err = xts_verify_key(tfm, key, len);

	return err ?: setkey(tfm, key, len);
}

static kiln_crypt_t *whole(const struct kiln_impl *impl, bool decrypt)
{
	return decrypt ? impl->cipher.decrypt : impl->cipher.encrypt;
}

static int walk_pieces(struct skcipher_request *req, bool decrypt)
{
	struct crypto_skcipher *tfm = crypto_skcipher_reqtfm(req);
	const struct kiln_alg *alg = alg_of(tfm);
	void *ctx = ctx_of(tfm);
	struct skcipher_walk walk;
	int err;

	err = skcipher_walk_virt(&walk, req, false);
	while (walk.nbytes) {
		const u32 n = kiln_step(walk.nbytes, walk.total);
		const struct kiln_impl *impl = kiln_simd_begin(alg);

		whole(impl, decrypt)(ctx, walk.dst.virt.addr, walk.src.virt.addr, n, walk.iv);
		kiln_simd_end(impl);
		err = skcipher_walk_done(&walk, walk.nbytes - n);
	}
	return err;
}

/* A message's first piece makes a tweak of the IV, each leaves the next one's. */
struct tweak {
	u8 value[KILN_MAX_IV] __aligned(16);
	bool begun;
};

static int walk_tweaked(struct skcipher_request *req, struct tweak *tweak, bool decrypt)
{
	struct crypto_skcipher *tfm = crypto_skcipher_reqtfm(req);
	const struct kiln_alg *alg = alg_of(tfm);
	void *ctx = ctx_of(tfm);
	struct skcipher_walk walk;
	int err;

	err = skcipher_walk_virt(&walk, req, false);
	while (walk.nbytes) {
		const u32 n = kiln_step(walk.nbytes, walk.total);
		const struct kiln_impl *impl = kiln_simd_begin(alg);

		if (!tweak->begun)
			impl->cipher.first(ctx, tweak->value);
		tweak->begun = true;
		(decrypt ? impl->cipher.decrypt_piece : impl->cipher.encrypt_piece)(
			ctx, walk.dst.virt.addr, walk.src.virt.addr, n, tweak->value);
		kiln_simd_end(impl);
		err = skcipher_walk_done(&walk, walk.nbytes - n);
	}
	return err;
}

/*
 * The last two blocks of a message with stolen ciphertext are one piece; a request of their
 * own keeps a walk from coming between them.
 */
static int crypt_tweaked(struct skcipher_request *req, bool decrypt)
{
	struct crypto_skcipher *tfm = crypto_skcipher_reqtfm(req);
	const u32 block = crypto_skcipher_ivsize(tfm), part = req->cryptlen % block;
	const u32 head = part ? req->cryptlen - part - block : req->cryptlen;
	struct scatterlist src_rest[2], dst_rest[2], *src, *dst;
	struct skcipher_request sub;
	struct tweak tweak = { };
	int err = 0;

	memcpy(tweak.value, req->iv, block);
	skcipher_request_set_tfm(&sub, tfm);
	skcipher_request_set_callback(&sub, skcipher_request_flags(req), NULL, NULL);
	skcipher_request_set_crypt(&sub, req->src, req->dst, head, req->iv);
	if (head)
		err = walk_tweaked(&sub, &tweak, decrypt);
	if (!err && part) {
		src = scatterwalk_ffwd(src_rest, req->src, head);
		dst = src;
		if (req->dst != req->src)
			dst = scatterwalk_ffwd(dst_rest, req->dst, head);
		skcipher_request_set_crypt(&sub, src, dst, block + part, req->iv);
		err = walk_tweaked(&sub, &tweak, decrypt);
	}
	memzero_explicit(&tweak, sizeof(tweak));
	return err;
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
	src = kiln_one_piece(req->src, len);
	dst = kiln_one_piece(req->dst, len);
	if (!src || !dst) {
		if (alg->impl->cipher.first)
			return crypt_tweaked(req, decrypt);
		return walk_pieces(req, decrypt);
	}
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
	/* Counters go on from any block; stolen ciphertext needs two blocks in a step. */
	to->chunksize = impl->blocksize == 1 && !tweaked ? KILN_PIECE : 0;
	to->walksize = KILN_PIECE;
	to->setkey = tweaked ? xts_setkey : setkey;
	to->encrypt = encrypt;
	to->decrypt = decrypt;
}
