// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Provides the hashes in ciphers/ through Linux's shash interface. */
#include <linux/string.h>

#include "alg.h"
#include "section.h"

static const struct kiln_alg *alg_of(struct crypto_shash *tfm)
{
	return container_of(crypto_shash_alg(tfm), struct kiln_alg, shash);
}

static void *ctx_of(struct crypto_shash *tfm)
{
	return kiln_aligned(crypto_shash_ctx(tfm));
}

static void *state_of(struct shash_desc *desc)
{
	return kiln_aligned(shash_desc_ctx(desc));
}

static int setkey(struct crypto_shash *tfm, const u8 *key, unsigned int len)
{
	return alg_of(tfm)->impl->setkey(ctx_of(tfm), key, len);
}

static int init(struct shash_desc *desc)
{
	const struct kiln_alg *alg = alg_of(desc->tfm);
	/* Use scalar code, which needs no FPU section. All tiers have the same init(). */
	const struct kiln_impl *impl = alg->scalar ?: alg->impl;

	impl->hash.init(ctx_of(desc->tfm), state_of(desc));
	return 0;
}

static int update(struct shash_desc *desc, const u8 *data, unsigned int len)
{
	const struct kiln_alg *alg = alg_of(desc->tfm);

	while (len) {
		const u32 n = min_t(u32, len, alg->section_bytes);
		const struct kiln_impl *impl = kiln_simd_begin(alg);

		impl->hash.update(ctx_of(desc->tfm), state_of(desc), data, n);
		kiln_simd_end(impl);
		data += n;
		len -= n;
	}
	return 0;
}

static int final(struct shash_desc *desc, u8 *out)
{
	const struct kiln_impl *impl = kiln_simd_begin(alg_of(desc->tfm));

	impl->hash.final(ctx_of(desc->tfm), state_of(desc), out);
	kiln_simd_end(impl);
	memzero_explicit(state_of(desc), impl->statesize);
	return 0;
}

static int digest(struct shash_desc *desc, const u8 *data, unsigned int len, u8 *out)
{
	const struct kiln_alg *alg = alg_of(desc->tfm);
	const struct kiln_impl *impl;

	if (len > alg->section_bytes) {
		init(desc);
		update(desc, data, len);
		return final(desc, out);
	}
	impl = kiln_simd_begin(alg);
	impl->hash.digest(ctx_of(desc->tfm), data, len, out);
	kiln_simd_end(impl);
	return 0;
}

/*
 * Exports only the aligned state, because its offset in the descriptor can differ between
 * descriptors.
 */
static int export(struct shash_desc *desc, void *out)
{
	memcpy(out, state_of(desc), alg_of(desc->tfm)->impl->statesize);
	return 0;
}

static int import(struct shash_desc *desc, const void *in)
{
	const struct kiln_impl *impl = alg_of(desc->tfm)->impl;
	void *state = state_of(desc);

	memcpy(state, in, impl->statesize);
	if (kiln_hash_valid(impl, state))
		return 0;
	memzero_explicit(state, impl->statesize);
	return -EINVAL;
}

#ifdef KILN_SHASH_CLONES
/*
 * Copies the key to a clone. Linux zeroes a clone's context, and the aligned contexts of the two
 * transforms may have different offsets. Clones are used by TCP-AO, for example, which has one for
 * each CPU.
 */
static int clone_tfm(struct crypto_shash *to, struct crypto_shash *from)
{
	memcpy(ctx_of(to), ctx_of(from), alg_of(to)->impl->ctxsize);
	return 0;
}
#endif

void kiln_shash_setup(struct kiln_alg *alg)
{
	const struct kiln_impl *impl = alg->impl;
	struct shash_alg *to = &alg->shash;

	to->base.cra_ctxsize = kiln_room(impl->ctxsize);
	/*
	 * Do not set a block size for NHPoly1305, because Linux's driver does not set one either.
	 */
	if (strcmp(impl->alg, "nhpoly1305"))
		to->base.cra_blocksize = impl->blocksize;
	to->digestsize = impl->digestsize;
	to->descsize = kiln_room(impl->statesize);
	to->statesize = impl->statesize;
	if (impl->setkey) {
		to->setkey = setkey;
#ifdef KILN_SHASH_CLONES
		to->clone_tfm = clone_tfm;
#endif
	}
	to->init = init;
	to->update = update;
	to->final = final;
	to->digest = digest;
	to->export = export;
	to->import = import;
}
