// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Implements ghash and polyval as keyed hashes: processes messages in pieces, pads a partial last
 * block with zeros, and lists the implementations.
 */
#include <kiln/string.h>
#include <kiln/unaligned.h>

#include "../entry.h"
#include "../list.h"
#include "../partial.h"
#include "polyval.h"

struct hash_state {
	u64 acc[2];
	u64 kept;	/* length in bytes of the partial block in @buffer */
	u8 buffer[POLYVAL_BLOCK_SIZE];
};

#define SETKEY(name)                                                                  \
static int setkey_##name(void *ctx, const u8 *key, size_t len)                        \
{                                                                                     \
	if (len != POLYVAL_BLOCK_SIZE)                                                \
		return -EINVAL;                                                       \
	name##_setkey(ctx, key);                                                      \
	kiln_wipe_below();                                                            \
	return 0;                                                                     \
}
SETKEY(ghash)
SETKEY(polyval)

HASH_ZERO(init, struct hash_state)

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

#define PIECES(alg, is_ghash, name)                                                   \
HASH_UPDATE(alg##_update_##name, update, polyval_blocks_##name, is_ghash)             \
HASH_FINAL(alg##_final_##name, final, polyval_blocks_##name, is_ghash)
#define SCALAR(alg, is_ghash, name)                                                   \
PIECES(alg, is_ghash, name)                                                           \
static void alg##_digest_##name(const void *ctx, const u8 *data, size_t len, u8 *out) \
{                                                                                     \
	struct hash_state s __aligned(16) = { 0 };                                    \
										      \
	update(polyval_blocks_##name, is_ghash, ctx, &s, data, len);                  \
	final(polyval_blocks_##name, is_ghash, ctx, &s, out);                         \
}
#define SIMD(alg, is_ghash, name)                                                     \
PIECES(alg, is_ghash, name)                                                           \
static void alg##_digest_##name(const void *ctx, const u8 *data, size_t len, u8 *out) \
{                                                                                     \
	polyval_whole_##name(ctx, data, len, out, is_ghash);                          \
}
#define BOTH_SIMD(name, ...) SIMD(ghash, true, name) SIMD(polyval, false, name)
SCALAR(ghash, true, generic)
SCALAR(polyval, false, generic)
AES_SIMD(BOTH_SIMD)

#define IMPL(name, func, tier_name, end, prio)                                        \
	{                                                                             \
		.alg = #name, .driver = #name "-" end, .kind = KILN_HASH,             \
		.tier = KILN_TIER_##tier_name, .priority = prio,                      \
		.constant_time = true, .key_min = POLYVAL_BLOCK_SIZE,                 \
		.key_max = POLYVAL_BLOCK_SIZE, .key_step = POLYVAL_BLOCK_SIZE,        \
		.blocksize = POLYVAL_BLOCK_SIZE, .digestsize = POLYVAL_BLOCK_SIZE,    \
		.ctxsize = sizeof(struct polyval_key),                                \
		.statesize = sizeof(struct hash_state), .class = KILN_MEDIUM,         \
		.setkey = setkey_##name,                                              \
		.hash = { .init = init, .update = name##_update_##func,               \
			  .final = name##_final_##func,                               \
			  .digest = name##_digest_##func, .valid = valid },           \
	},
#define GHASH(func, tier_name, end, prio, ...) IMPL(ghash, func, tier_name, end, prio)
#define POLYVAL(func, tier_name, end, prio, ...) IMPL(polyval, func, tier_name, end, prio)

static const struct kiln_impl impls[] = {
	GHASH(generic, GENERIC, "generic", 100)
	AES_SIMD(GHASH)
	POLYVAL(generic, GENERIC, "generic", 100)
	AES_SIMD(POLYVAL)
};

KILN_IMPLS(polyval_impls, impls);
