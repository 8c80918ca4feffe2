// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The simd helper makes a SIMD algorithm available in every context. If the FPU is usable, the
 * request is passed straight to the algorithm; otherwise cryptd defers it to a kworker.
 */
#include <kiln/crypto.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>

/*
 * Copies the request and selects its transform. An atomic caller must not overtake requests queued
 * on this transform. A caller that can sleep may overtake them, because such a caller either waits
 * for each of its requests or does not depend on their order.
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

	if (inner->name[0] != '_' || inner->name[1] != '_' ||
	    inner->driver_name[0] != '_' || inner->driver_name[1] != '_')
		return -EINVAL;
	alg = crypto_alg_new(inner->name + 2, inner->driver_name + 2, "");
	if (!alg)
		return -ENOMEM;
	alg->priority = inner->priority;
	alg->tier = inner->tier;
	alg->ivsize = inner->ivsize;
	alg->maxauthsize = inner->maxauthsize;
	alg->budget = inner->budget;
	alg->flags = (inner->flags & ~CRYPTO_ALG_INTERNAL) | CRYPTO_ALG_ASYNC;
	alg->models = CRYPTO_MODEL_HELPER;
	crypto_child_ops(alg, sizeof(struct crypto_tfm *), simd_init, simd_encrypt, simd_decrypt);
	alg->impl = inner;
	return crypto_alg_add(alg);
}
