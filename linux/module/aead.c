// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Requests to an AEAD of ciphers/, as Linux makes them.
 */
#include <crypto/algapi.h>
#include <crypto/gcm.h>
#include <crypto/scatterwalk.h>
#include <linux/string.h>

#include "alg.h"
#include "section.h"

enum { IPSEC_IV = 8, MAX_TAG = 16 };

static const struct kiln_alg *alg_of(struct crypto_aead *tfm)
{
	return container_of(crypto_aead_alg(tfm), struct kiln_alg, aead);
}

static void *ctx_of(struct crypto_aead *tfm)
{
	return kiln_aligned(crypto_aead_ctx(tfm));
}

static int setkey(struct crypto_aead *tfm, const u8 *key, unsigned int len)
{
	return alg_of(tfm)->impl->setkey(ctx_of(tfm), key, len);
}

static bool is(const struct kiln_impl *impl, const char *prefix)
{
	return strstarts(impl->alg, prefix);
}

/* What Linux's own take: with GCM every length from 12 on, too. */
static int setauthsize(struct crypto_aead *tfm, unsigned int size)
{
	const struct kiln_impl *impl = alg_of(tfm)->impl;

	if (is(impl, "gcm("))
		return crypto_gcm_check_authsize(size);
	if (size == impl->digestsize)
		return 0;
	if (!impl->tag_step || size < impl->tag_min || size > impl->digestsize ||
	    (impl->digestsize - size) % impl->tag_step)
		return -EINVAL;
	return 0;
}

/* What of the associated data is authenticated, or -EINVAL for a request that cannot be. */
static int aadlen_of(const struct kiln_impl *impl, const struct aead_request *req, u32 len)
{
	if (is(impl, "rfc4106("))
		return crypto_ipsec_check_assoclen(req->assoclen) ?:
		       (int)(req->assoclen - IPSEC_IV);
	/* CCM: a length of two to eight bytes that the message's fits in. */
	if (is(impl, "ccm(") && (req->iv[0] < 1 || req->iv[0] > 7 ||
				 (req->iv[0] < 3 && len >> (8 * (req->iv[0] + 1)))))
		return -EINVAL;
	return req->assoclen;
}

/* A message in pieces: a section each. */
struct pieces {
	const struct kiln_alg *alg;
	const void *ctx;
	u8 state[KILN_MAX_STATE] __aligned(KILN_ALIGN);
};

static void add_aad(struct pieces *p, struct scatterlist *sg, u32 left)
{
	struct sg_mapping_iter miter;

	sg_miter_start(&miter, sg, sg_nents(sg), SG_MITER_FROM_SG | SG_MITER_ATOMIC);
	while (left && sg_miter_next(&miter)) {
		const u32 n = min_t(u32, left, miter.length);
		const struct kiln_impl *impl = kiln_simd_begin(p->alg);

		impl->aead.aad(p->ctx, p->state, miter.addr, n);
		kiln_simd_end(impl);
		left -= n;
	}
	sg_miter_stop(&miter);
}

static int add_text(struct pieces *p, struct skcipher_walk *walk, bool decrypt)
{
	int err = 0;

	while (walk->nbytes) {
		const u32 n = kiln_step(walk->nbytes, walk->total);
		const struct kiln_impl *impl = kiln_simd_begin(p->alg);

		(decrypt ? impl->aead.decrypt : impl->aead.encrypt)(
			p->ctx, p->state, walk->dst.virt.addr, walk->src.virt.addr, n);
		kiln_simd_end(impl);
		err = skcipher_walk_done(walk, walk->nbytes - n);
	}
	return err;
}

static noinline int crypt_pieces(struct aead_request *req, u32 aadlen, u32 len, bool decrypt)
{
	struct crypto_aead *tfm = crypto_aead_reqtfm(req);
	const u32 tagsize = crypto_aead_authsize(tfm), at = req->assoclen + len;
	u8 tag[MAX_TAG], want[MAX_TAG];
	const struct kiln_impl *impl;
	struct skcipher_walk walk;
	struct pieces p;
	int err;

	p.alg = alg_of(tfm);
	p.ctx = ctx_of(tfm);
	/* Before the text is written: in place it may be next to it. */
	if (decrypt)
		scatterwalk_map_and_copy(want, req->src, at, tagsize, 0);
	impl = kiln_simd_begin(p.alg);
	impl->aead.begin(p.ctx, p.state, req->iv, aadlen, len, tagsize);
	kiln_simd_end(impl);
	add_aad(&p, req->src, aadlen);
	if (decrypt)
		err = skcipher_walk_aead_decrypt(&walk, req, false);
	else
		err = skcipher_walk_aead_encrypt(&walk, req, false);
	err = err ?: add_text(&p, &walk, decrypt);
	if (err)
		goto out;
	impl = kiln_simd_begin(p.alg);
	impl->aead.end(p.ctx, p.state, tag, tagsize);
	kiln_simd_end(impl);
	if (!decrypt) {
		scatterwalk_map_and_copy(tag, req->dst, at, tagsize, 1);
	} else if (crypto_memneq(tag, want, tagsize)) {
		sg_zero_buffer(req->dst, sg_nents(req->dst), len, req->assoclen);
		err = -EBADMSG;
	}
out:
	memzero_explicit(p.state, p.alg->impl->statesize);
	memzero_explicit(tag, sizeof(tag));
	return err;
}

static int crypt(struct aead_request *req, bool decrypt)
{
	struct crypto_aead *tfm = crypto_aead_reqtfm(req);
	const struct kiln_alg *alg = alg_of(tfm);
	const u32 tagsize = crypto_aead_authsize(tfm), assoclen = req->assoclen;
	const u32 len = decrypt ? req->cryptlen - tagsize : req->cryptlen;
	const int aadlen = aadlen_of(alg->impl, req, len);
	const struct kiln_impl *impl;
	u8 *src, *dst;
	int err = 0;

	if (aadlen < 0)
		return aadlen;
	src = kiln_one_piece(req->src, assoclen + req->cryptlen);
	dst = kiln_one_piece(req->dst, assoclen + len + (decrypt ? 0 : tagsize));
	if (!src || !dst)
		return crypt_pieces(req, aadlen, len, decrypt);
	impl = kiln_simd_begin(alg);
	if (decrypt)
		err = impl->aead.open(ctx_of(tfm), dst + assoclen, src + assoclen, len, src,
				      aadlen, req->iv, src + assoclen + len, tagsize);
	else
		impl->aead.seal(ctx_of(tfm), dst + assoclen, src + assoclen, len, src, aadlen,
				req->iv, dst + assoclen + len, tagsize);
	kiln_simd_end(impl);
	return err;
}

static int encrypt(struct aead_request *req)
{
	return crypt(req, false);
}

static int decrypt(struct aead_request *req)
{
	return crypt(req, true);
}

void kiln_aead_setup(struct kiln_alg *alg)
{
	const struct kiln_impl *impl = alg->impl;
	struct aead_alg *to = &alg->aead;

	to->base.cra_ctxsize = kiln_room(impl->ctxsize);
	to->base.cra_blocksize = impl->blocksize;
	to->ivsize = impl->ivsize;
	to->maxauthsize = impl->digestsize;
	to->chunksize = KILN_PIECE;
	to->setkey = setkey;
	to->setauthsize = setauthsize;
	to->encrypt = encrypt;
	to->decrypt = decrypt;
}
