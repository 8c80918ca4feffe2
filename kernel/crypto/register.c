// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Registers every implementation in ciphers/ as an algorithm. SIMD skciphers and AEADs are also
 * registered as internal algorithms behind the simd helper.
 */
#include <kiln/abi/cipher.h>
#include <kiln/budget.h>
#include <kiln/cpufeature.h>
#include <kiln/crypto.h>

static int setkey(struct crypto_tfm *tfm, const u8 *key, u32 len)
{
	const struct kiln_impl *impl = tfm->alg->impl;

	return impl->setkey(crypto_tfm_ctx(tfm), key, len);
}

static int add(const struct kiln_impl *impl, const char *prefix, u32 models, u32 flags,
	       struct crypto_alg **added)
{
	struct crypto_alg *alg = crypto_alg_new(impl->alg, impl->driver, prefix);

	if (!alg)
		return -ENOMEM;
	alg->flags = flags;
	alg->models = models;
	alg->priority = (int)impl->priority;
	alg->tier = impl->tier;
	alg->ctxsize = impl->ctxsize;
	alg->ivsize = impl->ivsize;
	alg->impl = impl;
	alg->budget = fpu_budget_of(impl);
	if (impl->setkey)
		alg->setkey = setkey;
	switch (impl->kind) {
	case KILN_SKCIPHER:
		skcipher_ops(alg, impl);
		break;
	case KILN_AEAD:
		aead_ops(alg, impl);
		break;
	default:
		shash_ops(alg, impl);
	}
	*added = alg;
	return crypto_alg_add(alg);
}

static int add_all(const struct kiln_impl *impl)
{
	struct crypto_alg *alg;
	int err;

	/*
	 * Hashes do not need the simd helper: where the FPU is not usable, they call a scalar
	 * implementation themselves.
	 */
	if (impl->tier == KILN_TIER_GENERIC || impl->kind == KILN_HASH)
		return add(impl, "", CRYPTO_MODEL_ALL, 0, &alg);
	err = add(impl, "__", CRYPTO_MODEL_ALL, CRYPTO_ALG_INTERNAL, &alg);
	if (!err)
		err = simd_register(alg);
	if (!err)
		err = add(impl, "", CRYPTO_MODEL_DIRECT, 0, &alg);
	return err;
}

int impls_register(void)
{
	int err = 0;
	size_t i;

	for (i = 0; i < kiln_impls() && !err; i++)
		err = add_all(kiln_impl(i));
	return err;
}
