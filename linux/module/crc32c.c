// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * CRC32C. Linux passes the initial value of the CRC as the key. A descriptor's context consists of
 * the current remainder alone, because other code in Linux writes a remainder directly into it.
 */
#include <linux/string.h>

#include "alg.h"
#include "section.h"

static const struct kiln_alg *alg_of(struct shash_desc *desc)
{
	return container_of(crypto_shash_alg(desc->tfm), struct kiln_alg, shash);
}

static int init_tfm(struct crypto_tfm *tfm)
{
	u32 *seed = crypto_tfm_ctx(tfm);

	*seed = ~0u;
	return 0;
}

static int setkey(struct crypto_shash *tfm, const u8 *key, unsigned int len)
{
	if (len != sizeof(u32))
		return -EINVAL;
	memcpy(crypto_shash_ctx(tfm), key, len);
	return 0;
}

static int init(struct shash_desc *desc)
{
	memcpy(shash_desc_ctx(desc), crypto_shash_ctx(desc->tfm), sizeof(u32));
	return 0;
}

static int update(struct shash_desc *desc, const u8 *data, unsigned int len)
{
	const struct kiln_alg *alg = alg_of(desc);

	while (len) {
		const u32 n = min_t(u32, len, alg->section_bytes);
		const struct kiln_impl *impl = kiln_simd_begin(alg);

		impl->hash.update(NULL, shash_desc_ctx(desc), data, n);
		kiln_simd_end(impl);
		data += n;
		len -= n;
	}
	return 0;
}

static int final(struct shash_desc *desc, u8 *out)
{
	const struct kiln_alg *alg = alg_of(desc);

	(alg->scalar ?: alg->impl)->hash.final(NULL, shash_desc_ctx(desc), out);
	return 0;
}

void kiln_crc32c_setup(struct kiln_alg *alg)
{
	const struct kiln_impl *impl = alg->impl;
	struct shash_alg *to = &alg->shash;

	WARN_ON(impl->statesize != sizeof(u32));
	to->base.cra_ctxsize = sizeof(u32);
	to->base.cra_flags = CRYPTO_ALG_OPTIONAL_KEY;
	to->base.cra_init = init_tfm;
	to->base.cra_blocksize = impl->blocksize;
	to->digestsize = impl->digestsize;
	to->descsize = sizeof(u32);
	to->setkey = setkey;
	to->init = init;
	to->update = update;
	to->final = final;
}
