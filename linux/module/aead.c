// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Processes Linux's AEAD requests with the implementations in ciphers/. */
#include <crypto/algapi.h>
#include <crypto/gcm.h>
#include <crypto/scatterwalk.h>
#include <linux/string.h>

#include "alg.h"
#include "section.h"
#include "walk.h"

/* Associated data of up to SHORT_AAD bytes does not count towards a section's limit. */
enum { IPSEC_IV = 8, MAX_TAG = 16, SHORT_AAD = 64 };

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

/* Accepts the tag sizes that Linux's own drivers accept. For GCM these are 4, 8 and 12 to 16. */
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

/* Returns the length of the authenticated data, or -EINVAL if the request is invalid. */
static int aadlen_of(const struct kiln_impl *impl, const struct aead_request *req, u32 len)
{
	if (is(impl, "rfc4106("))
		return crypto_ipsec_check_assoclen(req->assoclen) ?:
		       (int)(req->assoclen - IPSEC_IV);
	/* CCM's length field has two to eight bytes. The length of the text must fit in it. */
	if (is(impl, "ccm(") && (req->iv[0] < 1 || req->iv[0] > 7 ||
				 (req->iv[0] < 3 && len >> (8 * (req->iv[0] + 1)))))
		return -EINVAL;
	return req->assoclen;
}

/* A request and the lengths of its associated data, text and tag. */
struct message {
	struct aead_request *req;
	const struct kiln_alg *alg;
	const void *ctx;
	u32 aadlen, len, tagsize;
	bool decrypt;
};

static void add_aad(const struct message *m, struct kiln_steps *steps, void *state)
{
	u32 behind = 0, n;

	for (; behind < m->aadlen; behind += n) {
		const u8 *aad;

		n = min(m->aadlen - behind, m->alg->section_bytes);
		aad = kiln_piece_up_to(m->req->src, behind, &n);
		/* If @n is 0, the list is shorter than the associated data. */
		if (WARN_ON_ONCE(!n))
			return;
		kiln_step(steps, n)->aead.aad(m->ctx, state, aad, n);
	}
}

static void add_text(const struct message *m, struct kiln_steps *steps, void *state)
{
	struct kiln_walk walk;

	kiln_walk_first(&walk, m->req->src, m->req->dst, m->req->assoclen, m->len, KILN_PIECE,
			m->alg->section_bytes);
	for (; walk.nbytes; kiln_walk_next(&walk)) {
		const struct kiln_impl *impl = kiln_step(steps, walk.nbytes);

		(m->decrypt ? impl->aead.decrypt : impl->aead.encrypt)(
			m->ctx, state, walk.dst, walk.src, walk.nbytes);
	}
}

static noinline int crypt_pieces(const struct message *m)
{
	struct aead_request *req = m->req;
	const u32 behind = req->assoclen + m->len;
	u8 state[KILN_MAX_STATE] __aligned(KILN_ALIGN), tag[MAX_TAG], want[MAX_TAG];
	struct kiln_steps steps;
	int err = 0;

	/*
	 * Read the tag before writing the text, which may overwrite the tag if the source and the
	 * destination are the same.
	 */
	if (m->decrypt)
		scatterwalk_map_and_copy(want, req->src, behind, m->tagsize, 0);
	kiln_steps_begin(&steps, m->alg, aead_request_flags(req));
	steps.impl->aead.begin(m->ctx, state, req->iv, m->aadlen, m->len, m->tagsize);
	add_aad(m, &steps, state);
	add_text(m, &steps, state);
	steps.impl->aead.end(m->ctx, state, tag, m->tagsize);
	kiln_steps_end(&steps);
	if (!m->decrypt) {
		scatterwalk_map_and_copy(tag, req->dst, behind, m->tagsize, 1);
	} else if (crypto_memneq(tag, want, m->tagsize)) {
		sg_zero_buffer(req->dst, sg_nents(req->dst), m->len, req->assoclen);
		err = -EBADMSG;
	}
	memzero_explicit(state, m->alg->impl->statesize);
	memzero_explicit(tag, sizeof(tag));
	return err;
}

/*
 * Processes a request in one call. The source and the destination text must each be contiguous. The
 * tag need not be contiguous.
 */
static int crypt_whole(const struct message *m, u8 *dst, const u8 *src, const u8 *aad)
{
	struct aead_request *req = m->req;
	const u32 behind = req->assoclen + m->len;
	const struct kiln_impl *impl;
	u8 room[MAX_TAG], *to;
	const u8 *tag;
	int err;

	if (m->decrypt) {
		tag = kiln_piece_or_copy(req->src, behind, m->tagsize, room);
		impl = kiln_simd_begin(m->alg);
		err = impl->aead.open(m->ctx, dst, src, m->len, aad, m->aadlen, req->iv, tag,
				      m->tagsize);
		kiln_simd_end(impl);
		return err;
	}
	to = kiln_piece(req->dst, behind, m->tagsize);
	impl = kiln_simd_begin(m->alg);
	impl->aead.seal(m->ctx, dst, src, m->len, aad, m->aadlen, req->iv, to ?: room,
			m->tagsize);
	kiln_simd_end(impl);
	if (!to)
		scatterwalk_map_and_copy(room, req->dst, behind, m->tagsize, 1);
	return 0;
}

static int crypt(struct aead_request *req, bool decrypt)
{
	struct crypto_aead *tfm = crypto_aead_reqtfm(req);
	const u32 tagsize = crypto_aead_authsize(tfm);
	struct message m = {
		.req = req,
		.alg = alg_of(tfm),
		.ctx = ctx_of(tfm),
		.len = decrypt ? req->cryptlen - tagsize : req->cryptlen,
		.tagsize = tagsize,
		.decrypt = decrypt,
	};
	const int aadlen = aadlen_of(m.alg->impl, req, m.len);
	const u8 *src, *aad;
	u8 *dst, room[SHORT_AAD];

	if (aadlen < 0)
		return aadlen;
	m.aadlen = aadlen;
	src = kiln_piece(req->src, req->assoclen, m.len);
	dst = kiln_piece(req->dst, req->assoclen, m.len);
	if (aadlen <= SHORT_AAD)
		aad = kiln_piece_or_copy(req->src, 0, aadlen, room);
	else
		aad = kiln_piece(req->src, 0, aadlen);
	if (src && dst && aad && m.len <= m.alg->section_bytes &&
	    (aadlen <= SHORT_AAD || m.len + aadlen <= m.alg->section_bytes))
		return crypt_whole(&m, dst, src, aad);
	return crypt_pieces(&m);
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
