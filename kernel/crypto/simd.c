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

/*
 * A caller that cannot sleep must not overtake requests that are queued on this transform. One
 * that can sleep may: it waits for its own requests, or does not depend on their order.
 */
static __always_inline struct crypto_request *sub_request(struct crypto_request *req)
{
	struct crypto_tfm *const cryptd = crypto_tfm_child(req->tfm);
	struct crypto_request *sub = (struct crypto_request *)req->ctx;

	*sub = *req;
	if (!crypto_simd_usable() ||
	    (in_atomic() && cryptd_queued(cryptd)))
		sub->tfm = cryptd;
	else
		sub->tfm = crypto_tfm_child(cryptd);
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
	struct crypto_tfm **const cryptd = crypto_tfm_ctx(tfm);
	const struct crypto_alg *inner = tfm->alg->impl;
	u32 size;
	int err;

	*cryptd = cryptd_alloc(inner->driver_name,
				   CRYPTO_ALG_INTERNAL |
				   (inner->flags & CRYPTO_ALG_TYPE_MASK),
				   CRYPTO_ALG_INTERNAL | CRYPTO_ALG_TYPE_MASK, &err);
	if (!*cryptd)
		return err;
	size = crypto_tfm_reqsize(crypto_tfm_child(*cryptd));
	if (size < crypto_tfm_reqsize(*cryptd))
		size = crypto_tfm_reqsize(*cryptd);
	tfm->reqsize = sizeof(struct crypto_request) + size;
	return 0;
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
	alg->ctxsize = sizeof(struct crypto_tfm *);
	alg->setkey = crypto_child_setkey;
	alg->setauthsize = crypto_child_setauthsize;
	alg->encrypt = simd_encrypt;
	alg->decrypt = simd_decrypt;
	alg->init = simd_init;
	alg->exit = crypto_child_exit;
	alg->impl = inner;
	alg->users = 0;
	err = crypto_register_alg(alg);
	if (err)
		kfree(alg);
	return err;
}
