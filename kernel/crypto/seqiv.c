// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * seqiv(AEAD): generates IVs by XORing a sequence number with a secret salt. The IV is located
 * between the associated data and the text of a packet; the inner AEAD treats it as associated
 * data.
 */
#include <kiln/abi/crypto.h>
#include <kiln/crypto.h>
#include <kiln/slab.h>
#include <kiln/string.h>
#include <kiln/unaligned.h>

enum { SEQIV = 8 };

struct seqiv_ctx {
	struct crypto_tfm *child;	/* must be first: crypto_tfm_child() reads it */
	u64 salt;
};

static u64 salts;

void kiln_crypto_seed(u64 seed)
{
	__atomic_store_n(&salts, seed, __ATOMIC_RELAXED);
}

/* Generates salts with splitmix64, so that each transform gets a different one. */
static u64 new_salt(void)
{
	u64 x = __atomic_add_fetch(&salts, 0x9e3779b97f4a7c15, __ATOMIC_RELAXED);

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

/*
 * Prepares the inner request, which covers the data after the IV. Completing it completes the outer
 * request.
 */
static struct crypto_request *sub_request(struct crypto_request *req)
{
	struct seqiv_ctx *ctx = crypto_tfm_ctx(req->tfm);
	struct crypto_request *sub = (struct crypto_request *)req->ctx;

	sub->tfm = ctx->child;
	crypto_request_set_callback(sub, req->flags, req->complete, req->data);
	crypto_request_set_crypt(sub, req->src, req->dst, req->cryptlen - SEQIV, req->iv);
	sub->assoclen = req->assoclen + SEQIV;
	return sub;
}

/*
 * Returns whether the request has an IV, and whether the length of the inner request's associated
 * data, which includes the IV, fits in 32 bits.
 */
static bool is_of_form(const struct crypto_request *req)
{
	return req->cryptlen >= SEQIV && req->assoclen <= ~0u - SEQIV;
}

static int seqiv_encrypt(struct crypto_request *req)
{
	struct seqiv_ctx *ctx = crypto_tfm_ctx(req->tfm);
	const u64 all = (u64)req->assoclen + req->cryptlen;
	struct crypto_request *sub;

	if (!is_of_form(req) || !scatterwalk_holds(req->src, all) ||
	    !scatterwalk_holds(req->dst, all))
		return -EINVAL;
	if (req->src != req->dst)
		scatterwalk_copy_pieces(req->dst, req->src, all);
	put_le64(get_le64(req->iv) ^ ctx->salt, req->iv);
	scatterwalk_copy(req->iv, req->dst, req->assoclen, SEQIV, true);
	sub = sub_request(req);
	sub->src = req->dst;
	return crypto_encrypt(sub);
}

static int seqiv_decrypt(struct crypto_request *req)
{
	if (!is_of_form(req) || req->cryptlen - SEQIV < req->tfm->authsize ||
	    !scatterwalk_holds(req->src, req->assoclen + SEQIV))
		return -EINVAL;
	scatterwalk_copy(req->iv, req->src, req->assoclen, SEQIV, false);
	return crypto_decrypt(sub_request(req));
}

static int seqiv_init(struct crypto_tfm *tfm)
{
	struct seqiv_ctx *ctx = crypto_tfm_ctx(tfm);

	ctx->salt = new_salt();
	return crypto_child_init(tfm, sizeof(struct crypto_request));
}

struct crypto_alg *seqiv_instance(const char *name, u32 type, u32 mask, int *err)
{
	char inner[CRYPTO_MAX_ALG_NAME];
	struct crypto_alg *alg = NULL;
	struct crypto_tfm *child;

	*err = -ENOENT;
	if ((type & CRYPTO_ALG_TYPE_MASK) != CRYPTO_ALG_TYPE_AEAD ||
	    !crypto_name_split(name, "seqiv", inner, NULL))
		return NULL;
	child = crypto_alloc_tfm(inner, CRYPTO_ALG_TYPE_AEAD,
				 CRYPTO_ALG_TYPE_MASK | crypto_inherited_mask(type, mask),
				 err);
	if (!child)
		return NULL;
	*err = -EINVAL;
	if (child->alg->ivsize == SEQIV)
		alg = crypto_instance(child->alg, "seqiv", NULL, err);
	if (alg) {
		alg->flags = child->alg->flags & (CRYPTO_ALG_TYPE_MASK | CRYPTO_ALG_ASYNC);
		crypto_child_ops(alg, sizeof(struct seqiv_ctx), seqiv_init, seqiv_encrypt,
				 seqiv_decrypt);
	}
	crypto_free_tfm(child);
	return alg;
}
