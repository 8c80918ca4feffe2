// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The simd helper: a SIMD algorithm for callers in any context. Where the FPU is usable
 * the request goes on at once, else to a kworker through cryptd.
 */
#include <kiln/crypto.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/slab.h>
#include <kiln/string.h>

struct simd_ctx {
	struct crypto_tfm *cryptd;
};

static int simd_setkey(struct crypto_tfm *tfm, const u8 *key, u32 len)
{
	struct simd_ctx *ctx = crypto_tfm_ctx(tfm);

	return crypto_setkey(ctx->cryptd, key, len);
}

static int simd_setauthsize(struct crypto_tfm *tfm, u32 authsize)
{
	struct simd_ctx *ctx = crypto_tfm_ctx(tfm);

	return crypto_aead_setauthsize(ctx->cryptd, authsize);
}

/*
 * A caller that cannot sleep must not overtake requests that are queued on this transform. One
 * that can sleep may: it waits for its own requests, or does not depend on their order.
 */
static __always_inline struct crypto_request *sub_request(struct crypto_request *req)
{
	struct simd_ctx *ctx = crypto_tfm_ctx(req->tfm);
	struct crypto_request *sub = (struct crypto_request *)req->ctx;

	*sub = *req;
	if (!crypto_simd_usable() ||
	    (in_atomic() && cryptd_queued(ctx->cryptd)))
		sub->tfm = ctx->cryptd;
	else
		sub->tfm = cryptd_child(ctx->cryptd);
	return sub;
}

static int simd_encrypt(struct crypto_request *req)
{
	return crypto_encrypt(sub_request(req));
}

static int simd_decrypt(struct crypto_request *req)
{
	return crypto_decrypt(sub_request(req));
}

static int simd_init(struct crypto_tfm *tfm)
{
	struct simd_ctx *ctx = crypto_tfm_ctx(tfm);
	const struct crypto_alg *inner = tfm->alg->impl;
	u32 size;
	int err;

	ctx->cryptd = cryptd_alloc(inner->driver_name,
				   CRYPTO_ALG_INTERNAL |
				   (inner->flags & CRYPTO_ALG_TYPE_MASK),
				   CRYPTO_ALG_INTERNAL | CRYPTO_ALG_TYPE_MASK, &err);
	if (!ctx->cryptd)
		return err;
	size = crypto_tfm_reqsize(cryptd_child(ctx->cryptd));
	if (size < crypto_tfm_reqsize(ctx->cryptd))
		size = crypto_tfm_reqsize(ctx->cryptd);
	tfm->reqsize = sizeof(struct crypto_request) + size;
	return 0;
}

static void simd_exit(struct crypto_tfm *tfm)
{
	struct simd_ctx *ctx = crypto_tfm_ctx(tfm);

	crypto_free_tfm(ctx->cryptd);
}

int simd_register(const struct crypto_alg *inner)
{
	struct crypto_alg *alg;
	int err;

	if (inner->name[0] != '_' || inner->name[1] != '_' ||
	    inner->driver_name[0] != '_' || inner->driver_name[1] != '_')
		return -EINVAL;
	alg = kmalloc(sizeof(*alg));
	if (!alg)
		return -ENOMEM;
	*alg = *inner;
	memset(alg->name, 0, sizeof(alg->name));
	memset(alg->driver_name, 0, sizeof(alg->driver_name));
	memcpy(alg->name, inner->name + 2, sizeof(alg->name) - 2);
	memcpy(alg->driver_name, inner->driver_name + 2, sizeof(alg->driver_name) - 2);
	alg->flags = (inner->flags & ~CRYPTO_ALG_INTERNAL) | CRYPTO_ALG_ASYNC;
	alg->models = CRYPTO_MODEL_HELPER;
	alg->ctxsize = sizeof(struct simd_ctx);
	alg->setkey = simd_setkey;
	alg->setauthsize = simd_setauthsize;
	alg->encrypt = simd_encrypt;
	alg->decrypt = simd_decrypt;
	alg->init = simd_init;
	alg->exit = simd_exit;
	alg->impl = inner;
	alg->users = 0;
	err = crypto_register_alg(alg);
	if (err)
		kfree(alg);
	return err;
}
