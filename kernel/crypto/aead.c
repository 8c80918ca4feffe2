// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Processes requests to the AEADs in ciphers/. */
#include <kiln/abi/cipher.h>
#include <kiln/abi/crypto.h>
#include <kiln/budget.h>
#include <kiln/cpufeature.h>
#include <kiln/crypto.h>
#include <kiln/fpu.h>
#include <kiln/string.h>

enum { IPSEC_IV = 8, MAX_TAG = 16 };

static int setauthsize(struct crypto_tfm *tfm, u32 authsize)
{
	const struct kiln_impl *impl = tfm->alg->impl;

	if (authsize == impl->digestsize)
		return 0;
	if (!impl->tag_step || authsize < impl->tag_min ||
	    (impl->digestsize - authsize) % impl->tag_step)
		return -EINVAL;
	return 0;
}

static void wipe(struct scatterlist *sg, u32 behind, u32 len)
{
	struct scatterlist room[2];
	u32 offset = 0, n;
	u8 *at;

	sg = scatterwalk_ffwd(room, sg, behind);
	for (; len; len -= n) {
		n = scatterwalk_next(&sg, &offset, len, &at);
		memzero_explicit(at, n);
	}
}

/* The state of a message processed in pieces, in as many FPU sections as the budget requires. */
struct pieces {
	const struct kiln_impl *impl;
	const void *ctx;
	u32 aadlen, len;
	bool decrypt;
	struct fpu_cut cut;
	u8 state[KILN_MAX_STATE] __aligned(64);
};

static void add_aad(struct pieces *p, struct crypto_request *req)
{
	struct scatterlist *sg = req->src;
	u32 offset = 0, left, n;
	u8 *at;

	for (left = p->aadlen; left; left -= n) {
		n = fpu_cut_room(&p->cut);
		n = scatterwalk_next(&sg, &offset, left < n ? left : n, &at);
		p->impl->aead.aad(p->ctx, p->state, at, n);
		fpu_cut_spent(&p->cut, n);
	}
}

static void add_text(struct pieces *p, struct skcipher_walk *walk)
{
	while (walk->total) {
		skcipher_walk_next(walk, fpu_cut_room(&p->cut));
		(p->decrypt ? p->impl->aead.decrypt : p->impl->aead.encrypt)(
			p->ctx, p->state, walk->dst, walk->src, walk->nbytes);
		fpu_cut_spent(&p->cut, walk->nbytes);
		skcipher_walk_done(walk);
	}
}

static noinline int crypt_pieces(struct crypto_request *req, u32 aadlen, u32 len,
				 struct fpu_budget *budget, const bool decrypt)
{
	const u32 tagsize = req->tfm->authsize;
	struct pieces p = {
		.impl = req->tfm->alg->impl,
		.ctx = crypto_tfm_ctx(req->tfm),
		.aadlen = aadlen,
		.len = len,
		.decrypt = decrypt,
	};
	u8 tag[MAX_TAG], want[MAX_TAG];
	struct skcipher_walk walk;
	int err;

	err = skcipher_walk_text(&walk, req, len, WALK_MAX_BLOCK);
	if (err)
		return err;
	/* Read the tag before writing the text: in place, the text may overwrite the tag. */
	if (decrypt)
		scatterwalk_copy(want, req->src, (u64)req->assoclen + len, tagsize, false);
	fpu_cut_open(&p.cut, budget);
	p.impl->aead.begin(p.ctx, p.state, req->iv, aadlen, len, tagsize);
	add_aad(&p, req);
	add_text(&p, &walk);
	p.impl->aead.end(p.ctx, p.state, tag, tagsize);
	fpu_cut_close(&p.cut);
	if (!decrypt) {
		scatterwalk_copy(tag, req->dst, (u64)req->assoclen + len, tagsize, true);
	} else if (secrets_differ(tag, want, tagsize)) {
		wipe(req->dst, req->assoclen, len);
		err = -EBADMSG;
	}
	memzero_explicit(p.state, sizeof(p.state));
	memzero_explicit(tag, sizeof(tag));
	return err;
}

/* Processes a request in one call. Text, associated data and tag are each contiguous. */
static __always_inline int crypt_whole(struct crypto_request *req, u8 *dst, const u8 *src,
				       u32 len, const u8 *aad, u32 aadlen, u8 *tag,
				       const bool simd, const bool decrypt)
{
	const struct kiln_impl *impl = req->tfm->alg->impl;
	const void *ctx = crypto_tfm_ctx(req->tfm);
	const u32 tagsize = req->tfm->authsize;
	int err = 0;

	if (simd)
		kernel_fpu_begin();
	if (decrypt)
		err = impl->aead.open(ctx, dst, src, len, aad, aadlen, req->iv, tag, tagsize);
	else
		impl->aead.seal(ctx, dst, src, len, aad, aadlen, req->iv, tag, tagsize);
	if (simd)
		kernel_fpu_end();
	return err;
}

/*
 * Processes a request whose text is contiguous, the usual case, and whose associated data and tag
 * are in other list entries.
 */
static noinline int crypt_apart(struct crypto_request *req, u32 aadlen, u32 len,
				struct fpu_budget *budget, const bool decrypt)
{
	const u64 behind = (u64)req->assoclen + len;
	const u32 tagsize = req->tfm->authsize;
	struct scatterlist *const tag_at = decrypt ? req->src : req->dst;
	u8 tag[MAX_TAG], *src, *dst, *aad;
	int err;

	if (!scatterwalk_holds(req->src, behind) || !scatterwalk_holds(req->dst, behind) ||
	    !scatterwalk_holds(tag_at, behind + tagsize))
		return -EINVAL;
	src = scatterwalk_piece(req->src, req->assoclen, len);
	dst = scatterwalk_piece(req->dst, req->assoclen, len);
	aad = scatterwalk_piece(req->src, 0, aadlen);
	if (!src || !dst || !aad || (budget && (u64)aadlen + len > budget->most))
		return crypt_pieces(req, aadlen, len, budget, decrypt);
	if (decrypt)
		scatterwalk_copy(tag, req->src, behind, tagsize, false);
	err = crypt_whole(req, dst, src, len, aad, aadlen, tag, budget, decrypt);
	if (!decrypt)
		scatterwalk_copy(tag, req->dst, behind, tagsize, true);
	return err;
}

/*
 * Returns whether the algorithm accepts a request whose text, not counting the tag, has @len bytes.
 * Sets *@aadlen to the number of associated bytes that are authenticated.
 */
static __always_inline bool is_of_form(const struct crypto_request *req, u32 len, u32 *aadlen)
{
	switch (req->tfm->alg->form) {
	case CRYPTO_FORM_IPSEC:
		if (req->assoclen != 8 + IPSEC_IV && req->assoclen != 12 + IPSEC_IV)
			return false;
		*aadlen = req->assoclen - IPSEC_IV;
		return true;
	case CRYPTO_FORM_CCM:
		/*
		 * The length field has two to eight bytes, and the length of the text must fit
		 * in it.
		 */
		if (req->iv[0] < 1 || req->iv[0] > 7 ||
		    (req->iv[0] < 3 && len >> (8 * (req->iv[0] + 1))))
			return false;
		*aadlen = req->assoclen;
		return true;
	default:
		*aadlen = req->assoclen;
		return true;
	}
}

/*
 * Processes the request in one call if source and destination are contiguous and the request fits
 * in one section.
 */
static __always_inline int crypt(struct crypto_request *req, const bool simd,
				 const bool decrypt)
{
	const u32 assoclen = req->assoclen, tagsize = req->tfm->authsize;
	const u32 len = decrypt ? req->cryptlen - tagsize : req->cryptlen;
	u8 *const src = req->src->addr, *const dst = req->dst->addr;
	struct fpu_budget *const budget = simd ? &req->tfm->alg->budget[decrypt] : NULL;
	u32 aadlen, in, out;

	if (unlikely(!is_of_form(req, len, &aadlen)))
		return -EINVAL;
	/*
	 * For crypt_whole(), source and destination must each fit in a single list entry. If a sum
	 * overflows 32 bits, it exceeds the maximum length of an entry.
	 */
	if (unlikely(__builtin_add_overflow(assoclen, req->cryptlen, &in) ||
		     __builtin_add_overflow(assoclen + len, decrypt ? 0 : tagsize, &out) ||
		     req->src->length < in || req->dst->length < out ||
		     (simd && in > budget->most)))
		return crypt_apart(req, aadlen, len, budget, decrypt);
	return crypt_whole(req, dst + assoclen, src + assoclen, len, src, aadlen,
			   (decrypt ? src : dst) + assoclen + len, simd, decrypt);
}

CRYPTO_ENTRY_POINTS(crypt)

static bool begins_with(const char *name, const char *what)
{
	while (*what && *what == *name) {
		what++;
		name++;
	}
	return !*what;
}

void aead_ops(struct crypto_alg *alg, const struct kiln_impl *impl)
{
	const bool simd = impl->tier != KILN_TIER_GENERIC;

	alg->flags |= CRYPTO_ALG_TYPE_AEAD;
	alg->maxauthsize = impl->digestsize;
	if (begins_with(impl->alg, "rfc4106("))
		alg->form = CRYPTO_FORM_IPSEC;
	else if (begins_with(impl->alg, "ccm("))
		alg->form = CRYPTO_FORM_CCM;
	alg->setauthsize = setauthsize;
	alg->encrypt = simd ? encrypt_simd : encrypt_scalar;
	alg->decrypt = simd ? decrypt_simd : decrypt_scalar;
}
