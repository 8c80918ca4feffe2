// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * ghash and polyval as hashes with a key: messages in pieces, and the list of implementations.
 * A last block that is not full is filled with zeros.
 */
#include <kiln/string.h>
#include <kiln/unaligned.h>

#include "../list.h"
#include "../partial.h"
#include "polyval.h"

struct hash_state {
	u64 acc[2];
	u64 kept;	/* bytes of the block that is not full */
	u8 buffer[POLYVAL_BLOCK_SIZE];
};

static int setkey_ghash(void *ctx, const u8 *key, size_t len)
{
	if (len != POLYVAL_BLOCK_SIZE)
		return -EINVAL;
	ghash_setkey(ctx, key);
	kiln_wipe_below();
	return 0;
}

static int setkey_polyval(void *ctx, const u8 *key, size_t len)
{
	if (len != POLYVAL_BLOCK_SIZE)
		return -EINVAL;
	polyval_setkey(ctx, key);
	kiln_wipe_below();
	return 0;
}

static void init(const void *ctx, void *state)
{
	(void)ctx;
	memset(state, 0, sizeof(struct hash_state));
}

static bool valid(const void *state)
{
	const struct hash_state *s = state;

	return s->kept < POLYVAL_BLOCK_SIZE;
}

static __always_inline void update(polyval_blocks_t *blocks, const bool ghash,
				   const void *ctx, struct hash_state *s,
				   const u8 *data, size_t len)
{
	if (s->kept) {
		if (!fill_block(s->buffer, &s->kept, POLYVAL_BLOCK_SIZE, &data, &len))
			return;
		blocks(ctx, s->acc, s->buffer, 1, ghash);
	}
	if (len >= POLYVAL_BLOCK_SIZE)
		blocks(ctx, s->acc, data, len / POLYVAL_BLOCK_SIZE, ghash);
	s->kept = len % POLYVAL_BLOCK_SIZE;
	memcpy(s->buffer, data + (len - s->kept), s->kept);
}

static __always_inline void final(polyval_blocks_t *blocks, const bool ghash,
				  const void *ctx, struct hash_state *s, u8 *out)
{
	if (s->kept) {
		memset(s->buffer + s->kept, 0, POLYVAL_BLOCK_SIZE - s->kept);
		blocks(ctx, s->acc, s->buffer, 1, ghash);
	}
	put_le64(ghash ? __builtin_bswap64(s->acc[1]) : s->acc[0], out);
	put_le64(ghash ? __builtin_bswap64(s->acc[0]) : s->acc[1], out + 8);
	memzero_explicit(s, sizeof(*s));
}

#define HASH(alg, is_ghash, name)                                                     \
static void alg##_update_##name(const void *ctx, void *state, const u8 *data, size_t len) \
{                                                                                     \
	update(polyval_blocks_##name, is_ghash, ctx, state, data, len);               \
}                                                                                     \
static void alg##_final_##name(const void *ctx, void *state, u8 *out)                 \
{                                                                                     \
	final(polyval_blocks_##name, is_ghash, ctx, state, out);                      \
}
#define SCALAR(alg, is_ghash, name)                                                   \
HASH(alg, is_ghash, name)                                                             \
static void alg##_digest_##name(const void *ctx, const u8 *data, size_t len, u8 *out) \
{                                                                                     \
	struct hash_state s __aligned(16) = { 0 };                                    \
										      \
	update(polyval_blocks_##name, is_ghash, ctx, &s, data, len);                  \
	final(polyval_blocks_##name, is_ghash, ctx, &s, out);                         \
}
#define SIMD(alg, is_ghash, name)                                                     \
HASH(alg, is_ghash, name)                                                             \
static void alg##_digest_##name(const void *ctx, const u8 *data, size_t len, u8 *out) \
{                                                                                     \
	polyval_whole_##name(ctx, data, len, out, is_ghash);                         \
}
#define BOTH(KIND, name) KIND(ghash, true, name) KIND(polyval, false, name)
BOTH(SCALAR, generic)
BOTH(SIMD, aesni)
BOTH(SIMD, vaes_avx2)
BOTH(SIMD, vaes_avx512)

#define IMPL(name, func, end, tier_name, prio)                                        \
	{                                                                             \
		.alg = #name, .driver = #name "-" end, .kind = KILN_HASH,             \
		.tier = KILN_TIER_##tier_name, .priority = prio,                      \
		.constant_time = true, .key_min = POLYVAL_BLOCK_SIZE,                 \
		.key_max = POLYVAL_BLOCK_SIZE, .key_step = POLYVAL_BLOCK_SIZE,        \
		.blocksize = POLYVAL_BLOCK_SIZE, .digestsize = POLYVAL_BLOCK_SIZE,    \
		.ctxsize = sizeof(struct polyval_key),                                \
		.statesize = sizeof(struct hash_state), .class = KILN_MEDIUM,         \
		.setkey = setkey_##name,                                              \
		.hash = { init, name##_update_##func, name##_final_##func,            \
			  name##_digest_##func, valid },                              \
	}
#define ALG(name)                                                                     \
	IMPL(name, generic, "generic", GENERIC, 100),                                 \
	IMPL(name, aesni, "aesni", AESNI, 400),                                       \
	IMPL(name, vaes_avx2, "vaes-avx2", VAES_AVX2, 600),                           \
	IMPL(name, vaes_avx512, "vaes-avx512", VAES_AVX512, 800)

static const struct kiln_impl impls[] = {
	ALG(ghash),
	ALG(polyval),
};

KILN_IMPLS(polyval_impls, impls);
