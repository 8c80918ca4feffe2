// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Provides the hashes in ciphers/. They are synchronous and may be called in any context: where
 * SIMD is not usable, a scalar implementation continues from the same state.
 */
#include <kiln/abi/cipher.h>
#include <kiln/abi/crypto.h>
#include <kiln/budget.h>
#include <kiln/cpufeature.h>
#include <kiln/crypto.h>
#include <kiln/fpu.h>
#include <kiln/string.h>

/* Returns whether SIMD is usable here and worth an FPU section for @len bytes. */
static __always_inline bool may_use_simd(const struct crypto_alg *alg, u32 len)
{
	return alg->fallback && len >= *alg->min_bytes && crypto_simd_usable();
}

/* Selects an implementation. If it is a SIMD implementation, opens an FPU section. */
static __always_inline const struct kiln_impl *begin(const struct crypto_tfm *tfm, bool simd)
{
	if (simd)
		kernel_fpu_begin();
	else if (tfm->alg->fallback)
		return tfm->alg->fallback;
	return tfm->alg->impl;
}

static __always_inline void end(bool simd)
{
	if (simd)
		kernel_fpu_end();
}

static __always_inline int check_key(const struct crypto_tfm *tfm)
{
	return unlikely(tfm->flags & CRYPTO_TFM_NEED_KEY) ? -ENOKEY : 0;
}

int shash_init(struct shash_desc *desc)
{
	const struct crypto_alg *alg = desc->tfm->alg;
	/* init() is short and the same for all tiers, so it never needs an FPU section. */
	const struct kiln_impl *impl = alg->fallback ? alg->fallback : alg->impl;
	const int err = check_key(desc->tfm);

	if (!err)
		impl->hash.init(crypto_tfm_ctx(desc->tfm), desc->ctx);
	return err;
}

/*
 * Processes the data in as many sections as the budget requires. If @out is not NULL, also
 * finishes the hash.
 */
static noinline void update_pieces(const struct crypto_tfm *tfm, void *state, const u8 *data,
				   u32 len, u8 *out)
{
	const struct kiln_impl *impl = tfm->alg->impl;
	struct fpu_cut cut;
	u32 n;

	fpu_cut_open(&cut, tfm->alg->budget);
	for (; len; len -= n, data += n) {
		n = fpu_cut_room(&cut);
		n = len < n ? len : n;
		impl->hash.update(tfm->ctx, state, data, n);
		fpu_cut_spent(&cut, n);
	}
	if (out)
		impl->hash.final(tfm->ctx, state, out);
	fpu_cut_close(&cut);
}

int shash_update(struct shash_desc *desc, const u8 *data, u32 len)
{
	const struct crypto_alg *alg = desc->tfm->alg;
	const int err = check_key(desc->tfm);
	bool simd;

	if (err)
		return err;
	simd = may_use_simd(alg, len);
	if (simd && unlikely(len > alg->budget->most)) {
		update_pieces(desc->tfm, desc->ctx, data, len, NULL);
		return 0;
	}
	begin(desc->tfm, simd)->hash.update(crypto_tfm_ctx(desc->tfm), desc->ctx, data, len);
	end(simd);
	return 0;
}

int shash_final(struct shash_desc *desc, u8 *out)
{
	const int err = check_key(desc->tfm);
	const struct kiln_impl *impl;
	bool simd;

	if (err)
		return err;
	/* Assume that SIMD is worthwhile, because the amount of buffered data is not known here. */
	simd = may_use_simd(desc->tfm->alg, ~0u);
	impl = begin(desc->tfm, simd);
	impl->hash.final(crypto_tfm_ctx(desc->tfm), desc->ctx, out);
	end(simd);
	memzero_explicit(desc->ctx, impl->statesize);
	return 0;
}

static noinline void digest_sections(struct crypto_tfm *tfm, const u8 *data, u32 len, u8 *out)
{
	struct shash_desc desc;

	desc.tfm = tfm;
	shash_init(&desc);
	update_pieces(tfm, desc.ctx, data, len, out);
	memzero_explicit(desc.ctx, shash_statesize(tfm));
}

int shash_digest(struct crypto_tfm *tfm, const u8 *data, u32 len, u8 *out)
{
	const int err = check_key(tfm);
	bool simd;

	if (err)
		return err;
	simd = may_use_simd(tfm->alg, len);
	if (simd && unlikely(len > tfm->alg->budget->most)) {
		digest_sections(tfm, data, len, out);
		return 0;
	}
	begin(tfm, simd)->hash.digest(crypto_tfm_ctx(tfm), data, len, out);
	end(simd);
	return 0;
}

int shash_digest_pieces(struct crypto_tfm *tfm, struct scatterlist *sg, u64 len, u8 *out)
{
	struct shash_desc desc;
	u32 offset = 0, n;
	u8 *at;
	int err;

	if (!scatterwalk_holds(sg, len))
		return -EINVAL;
	desc.tfm = tfm;
	err = shash_init(&desc);
	for (; len && !err; len -= n) {
		n = scatterwalk_next(&sg, &offset, len, &at);
		err = shash_update(&desc, at, n);
	}
	return err ? err : shash_final(&desc, out);
}

int shash_export(const struct shash_desc *desc, void *out)
{
	memcpy(out, desc->ctx, shash_statesize(desc->tfm));
	return 0;
}

int shash_import(struct shash_desc *desc, const void *in)
{
	const struct kiln_impl *impl = desc->tfm->alg->impl;
	const int err = check_key(desc->tfm);

	if (err)
		return err;
	memcpy(desc->ctx, in, impl->statesize);
	if (kiln_hash_valid(impl, desc->ctx))
		return 0;
	memzero_explicit(desc->ctx, impl->statesize);
	return -EINVAL;
}

u32 shash_digestsize(const struct crypto_tfm *tfm)
{
	const struct kiln_impl *impl = tfm->alg->impl;

	return impl->digestsize;
}

u32 shash_statesize(const struct crypto_tfm *tfm)
{
	const struct kiln_impl *impl = tfm->alg->impl;

	return impl->statesize;
}

void shash_ops(struct crypto_alg *alg, const struct kiln_impl *impl)
{
	alg->flags |= CRYPTO_ALG_TYPE_SHASH;
	alg->min_bytes = fpu_min_bytes_of(impl);
	if (impl->tier != KILN_TIER_GENERIC)
		alg->fallback = kiln_best_scalar(impl->alg);
}
