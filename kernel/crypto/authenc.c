// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * authenc(HASH,SKCIPHER). Encryption encrypts and then authenticates the result; decryption checks
 * the tag first. The hash is synchronous; the skcipher may be asynchronous.
 */
#include <kiln/abi/crypto.h>
#include <kiln/crypto.h>
#include <kiln/slab.h>
#include <kiln/string.h>
#include <kiln/unaligned.h>

struct authenc_ctx {
	struct crypto_tfm *auth, *enc;
};

struct authenc_rctx {
	struct scatterlist src[2], dst[2];
	struct crypto_request sub;	/* must be last: its ctx follows */
};

static struct authenc_rctx *request_ctx(struct crypto_request *req)
{
	return (struct authenc_rctx *)req->ctx;
}

/*
 * A key consists of three parts. The first is a netlink attribute of type 1 that contains the
 * length of the cipher key (big-endian). The hash key and the cipher key follow.
 */
enum { ATTR = 4, ATTR_TYPE = 1, PARAM = 4 };

static int authenc_setkey(struct crypto_tfm *tfm, const u8 *key, u32 len)
{
	struct authenc_ctx *ctx = crypto_tfm_ctx(tfm);
	u32 enckeylen, authkeylen;
	int err;

	if (len < ATTR + PARAM || key[0] != ATTR + PARAM || key[1] || key[2] != ATTR_TYPE ||
	    key[3])
		return -EINVAL;
	enckeylen = __builtin_bswap32(get_le32(key + ATTR));
	key += ATTR + PARAM;
	len -= ATTR + PARAM;
	if (len < enckeylen)
		return -EINVAL;
	authkeylen = len - enckeylen;
	err = crypto_setkey(ctx->auth, key, authkeylen);
	if (err)
		return err;
	return crypto_setkey(ctx->enc, key + authkeylen, enckeylen);
}

static int put_icv(struct crypto_request *req)
{
	struct authenc_ctx *ctx = crypto_tfm_ctx(req->tfm);
	const u64 len = (u64)req->assoclen + req->cryptlen;
	u8 icv[KILN_MAX_DIGEST];
	const int err = shash_digest_sg(ctx->auth, req->dst, len, icv);

	if (!err)
		scatterwalk_copy(icv, req->dst, len, req->tfm->authsize, true);
	return err;
}

static void finish_encrypt(void *data, int err)
{
	struct crypto_request *req = data;

	if (!err)
		err = put_icv(req);
	req->complete(req->data, err);
}

static struct crypto_request *sub_request(struct crypto_request *req, u32 len)
{
	struct authenc_ctx *ctx = crypto_tfm_ctx(req->tfm);
	struct authenc_rctx *rctx = request_ctx(req);
	struct scatterlist *src, *dst;

	src = dst = scatterwalk_ffwd(rctx->src, req->src, req->assoclen);
	if (req->src != req->dst)
		dst = scatterwalk_ffwd(rctx->dst, req->dst, req->assoclen);
	rctx->sub.tfm = ctx->enc;
	crypto_request_set_crypt(&rctx->sub, src, dst, len, req->iv);
	rctx->sub.assoclen = 0;
	return &rctx->sub;
}

static int authenc_encrypt(struct crypto_request *req)
{
	const u64 all = (u64)req->assoclen + req->cryptlen;
	struct crypto_request *sub;
	int err;

	if (!scatterwalk_holds(req->src, all) ||
	    !scatterwalk_holds(req->dst, all + req->tfm->authsize))
		return -EINVAL;
	if (req->src != req->dst)
		scatterwalk_copy_pieces(req->dst, req->src, req->assoclen);
	sub = sub_request(req, req->cryptlen);
	crypto_request_set_callback(sub, req->flags | CRYPTO_TFM_REQ_HOLD_PARENT, finish_encrypt,
				    req);
	err = crypto_encrypt(sub);
	return err ? err : put_icv(req);
}

static int authenc_decrypt(struct crypto_request *req)
{
	struct authenc_ctx *ctx = crypto_tfm_ctx(req->tfm);
	const u32 authsize = req->tfm->authsize, len = req->cryptlen - authsize;
	const u64 hashed = (u64)req->assoclen + len;
	u8 icv[KILN_MAX_DIGEST], want[KILN_MAX_DIGEST];
	struct crypto_request *sub;
	int err;

	if (!scatterwalk_holds(req->src, hashed + authsize) ||
	    !scatterwalk_holds(req->dst, hashed))
		return -EINVAL;
	err = shash_digest_sg(ctx->auth, req->src, hashed, icv);
	if (err)
		return err;
	scatterwalk_copy(want, req->src, hashed, authsize, false);
	if (secrets_differ(icv, want, authsize))
		return -EBADMSG;
	sub = sub_request(req, len);
	crypto_request_set_callback(sub, req->flags, req->complete, req->data);
	return crypto_decrypt(sub);
}

static int authenc_init(struct crypto_tfm *tfm)
{
	struct authenc_ctx *ctx = crypto_tfm_ctx(tfm);
	int err;

	ctx->auth = crypto_spawn_tfm(tfm->alg->inner[0], &err);
	if (!ctx->auth)
		return err;
	ctx->enc = crypto_spawn_tfm(tfm->alg->inner[1], &err);
	if (!ctx->enc) {
		crypto_free_tfm(ctx->auth);
		return err;
	}
	tfm->reqsize = sizeof(struct authenc_rctx) + crypto_tfm_reqsize(ctx->enc);
	return 0;
}

static void authenc_exit(struct crypto_tfm *tfm)
{
	struct authenc_ctx *ctx = crypto_tfm_ctx(tfm);

	crypto_free_tfm(ctx->auth);
	crypto_free_tfm(ctx->enc);
}

static struct crypto_alg *combine(const struct crypto_tfm *auth, const struct crypto_tfm *enc,
				  int *err)
{
	struct crypto_alg *alg = crypto_instance(auth->alg, "authenc", enc->alg, err);

	if (!alg)
		return NULL;
	alg->flags = CRYPTO_ALG_TYPE_AEAD | (enc->alg->flags & CRYPTO_ALG_ASYNC);
	alg->models = enc->alg->models;
	alg->priority = 10 * enc->alg->priority + auth->alg->priority;
	/* Use the cipher's tier: the hash has a scalar fallback, so its tier does not matter. */
	alg->tier = enc->alg->tier;
	alg->ctxsize = sizeof(struct authenc_ctx);
	alg->ivsize = enc->alg->ivsize;
	alg->maxauthsize = shash_digestsize(auth);
	alg->setkey = authenc_setkey;
	alg->encrypt = authenc_encrypt;
	alg->decrypt = authenc_decrypt;
	alg->init = authenc_init;
	alg->exit = authenc_exit;
	return alg;
}

struct crypto_alg *authenc_instance(const char *name, u32 type, u32 mask, int *err)
{
	char first[CRYPTO_MAX_ALG_NAME], second[CRYPTO_MAX_ALG_NAME];
	struct crypto_tfm *auth, *enc;
	struct crypto_alg *alg = NULL;

	*err = -ENOENT;
	if ((type & CRYPTO_ALG_TYPE_MASK) != CRYPTO_ALG_TYPE_AEAD ||
	    !crypto_name_split(name, "authenc", first, second))
		return NULL;
	auth = crypto_alloc_tfm(first, CRYPTO_ALG_TYPE_SHASH, CRYPTO_ALG_TYPE_MASK, err);
	if (!auth)
		return NULL;
	enc = crypto_alloc_tfm(second, CRYPTO_ALG_TYPE_SKCIPHER,
			       CRYPTO_ALG_TYPE_MASK | crypto_inherited_mask(type, mask),
			       err);
	if (enc) {
		alg = combine(auth, enc, err);
		crypto_free_tfm(enc);
	}
	crypto_free_tfm(auth);
	return alg;
}
