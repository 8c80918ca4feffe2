// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Poly1305. In Linux the message begins with the key. A descriptor has no room for the expanded
 * key, so the key is expanded again for every piece.
 */
#include <linux/string.h>

#include "alg.h"
#include "section.h"

enum { KEY = 32, CTX = 512, STATE = 64 };

struct state {
	u8 state[STATE] __aligned(KILN_ALIGN);
	u8 key[KEY];
	u32 have;	/* number of key bytes received so far */
};

static const struct kiln_alg *alg_of(struct shash_desc *desc)
{
	return container_of(crypto_shash_alg(desc->tfm), struct kiln_alg, shash);
}

static struct state *state_of(struct shash_desc *desc)
{
	return kiln_aligned(shash_desc_ctx(desc));
}

static int init(struct shash_desc *desc)
{
	memset(state_of(desc), 0, sizeof(struct state));
	return 0;
}

static int update(struct shash_desc *desc, const u8 *data, unsigned int len)
{
	const struct kiln_alg *alg = alg_of(desc);
	u8 ctx[CTX] __aligned(KILN_ALIGN);
	struct state *s = state_of(desc);
	const u32 missing = min_t(u32, KEY - s->have, len);

	memcpy(s->key + s->have, data, missing);
	s->have += missing;
	data += missing;
	len -= missing;
	if (s->have < KEY)
		return 0;
	alg->impl->setkey(ctx, s->key, KEY);
	if (missing)
		(alg->scalar ?: alg->impl)->hash.init(ctx, s->state);
	while (len) {
		const u32 n = min_t(u32, len, alg->section_bytes);
		const struct kiln_impl *impl = kiln_simd_begin(alg);

		impl->hash.update(ctx, s->state, data, n);
		kiln_simd_end(impl);
		data += n;
		len -= n;
	}
	memzero_explicit(ctx, sizeof(ctx));
	return 0;
}

static int final(struct shash_desc *desc, u8 *out)
{
	const struct kiln_alg *alg = alg_of(desc);
	u8 ctx[CTX] __aligned(KILN_ALIGN);
	struct state *s = state_of(desc);
	const struct kiln_impl *impl;

	if (s->have < KEY)
		return -ENOKEY;
	alg->impl->setkey(ctx, s->key, KEY);
	impl = kiln_simd_begin(alg);
	impl->hash.final(ctx, s->state, out);
	kiln_simd_end(impl);
	memzero_explicit(ctx, sizeof(ctx));
	memzero_explicit(s, sizeof(*s));
	return 0;
}

static int export(struct shash_desc *desc, void *out)
{
	memcpy(out, state_of(desc), sizeof(struct state));
	return 0;
}

static int import(struct shash_desc *desc, const void *in)
{
	struct state *s = state_of(desc);

	memcpy(s, in, sizeof(*s));
	if (s->have <= KEY && kiln_hash_valid(alg_of(desc)->impl, s->state))
		return 0;
	memzero_explicit(s, sizeof(*s));
	return -EINVAL;
}

void kiln_poly1305_setup(struct kiln_alg *alg)
{
	const struct kiln_impl *impl = alg->impl;
	struct shash_alg *to = &alg->shash;

	WARN_ON(impl->ctxsize > CTX || impl->statesize > STATE);
	to->base.cra_blocksize = impl->blocksize;
	to->digestsize = impl->digestsize;
	to->descsize = kiln_room(sizeof(struct state));
	to->statesize = sizeof(struct state);
	to->init = init;
	to->update = update;
	to->final = final;
	to->export = export;
	to->import = import;
}
