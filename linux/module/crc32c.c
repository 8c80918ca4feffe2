// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * CRC32C, whose key in Linux is the value to begin with.
 */
#include <linux/string.h>

#include "alg.h"

struct seed {
	u32 value;
};

static int init_tfm(struct crypto_tfm *tfm)
{
	struct seed *seed = crypto_tfm_ctx(tfm);

	seed->value = ~0u;
	return 0;
}

static int setkey(struct crypto_shash *tfm, const u8 *key, unsigned int len)
{
	struct seed *seed = crypto_shash_ctx(tfm);

	if (len != sizeof(seed->value))
		return -EINVAL;
	memcpy(&seed->value, key, sizeof(seed->value));
	return 0;
}

/* A state is the remainder so far. */
static int init(struct shash_desc *desc)
{
	const struct seed *seed = crypto_shash_ctx(desc->tfm);

	*(u32 *)kiln_aligned(shash_desc_ctx(desc)) = seed->value;
	return 0;
}

void kiln_crc32c_setup(struct kiln_alg *alg)
{
	struct shash_alg *to = &alg->shash;

	kiln_shash_setup(alg);
	to->base.cra_ctxsize = sizeof(struct seed);
	to->base.cra_flags |= CRYPTO_ALG_OPTIONAL_KEY;
	to->base.cra_init = init_tfm;
	to->setkey = setkey;
	to->init = init;
	/* It knows one seed only. */
	to->digest = NULL;
}
