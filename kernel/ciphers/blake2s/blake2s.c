// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* BLAKE2s with and without a key: messages in pieces, and the list of implementations. */
#include "blake2s.h"

#include <kiln/string.h>
#include <kiln/unaligned.h>

#include "../entry.h"
#include "../list.h"

/*
 * The key, padded with zeros, is the first block. Messages start from @after, the state after that
 * block. For an empty message the key is also the last block, which is compressed differently.
 */
struct blake2smac_ctx {
	u32 start[8], after[8];
	u8 key[BLAKE2S_BLOCK_SIZE];
};

/*
 * Sets the initial state from the parameter block (RFC 7693): a tree of one leaf, the length of the
 * key, and the length of the digest.
 */
static __always_inline void start(u32 h[8], size_t keylen)
{
	static const u32 iv[8] = BLAKE2S_IV;

	memcpy(h, iv, sizeof(iv));
	h[0] ^= 0x01010000 ^ (u32)keylen << 8 ^ BLAKE2S_DIGEST_SIZE;
}

static int mac_setkey(void *context, const u8 *key, size_t len)
{
	struct blake2smac_ctx *ctx = context;

	if (!len || len > BLAKE2S_MAX_KEY)
		return -EINVAL;
	memset(ctx->key, 0, sizeof(ctx->key));
	memcpy(ctx->key, key, len);
	start(ctx->start, len);
	memcpy(ctx->after, ctx->start, sizeof(ctx->after));
	blake2s_blocks_generic(ctx->after, ctx->key, 1, BLAKE2S_BLOCK_SIZE, 0);
	kiln_wipe_below();
	return 0;
}

static void init(const void *ctx __maybe_unused, void *state)
{
	struct blake2s_state *s = state;

	start(s->h, 0);
	s->bytes = 0;
	s->kept = 0;
}

static void mac_init(const void *context, void *state)
{
	const struct blake2smac_ctx *ctx = context;
	struct blake2s_state *s = state;

	memcpy(s->h, ctx->start, sizeof(s->h));
	s->bytes = 0;
	memcpy(s->buffer, ctx->key, sizeof(s->buffer));
	s->kept = BLAKE2S_BLOCK_SIZE;
}

/*
 * Begins a message. For the MAC of an empty message, the key block stays in the buffer, because it
 * is also the last block.
 */
static __always_inline void mac_begin(const struct blake2smac_ctx *ctx,
				      struct blake2s_state *s, size_t len)
{
	if (!len) {
		mac_init(ctx, s);
		return;
	}
	memcpy(s->h, ctx->after, sizeof(s->h));
	s->bytes = BLAKE2S_BLOCK_SIZE;
	s->kept = 0;
}

static bool valid(const void *state)
{
	const struct blake2s_state *s = state;

	return s->kept <= BLAKE2S_BLOCK_SIZE;
}

/*
 * The last block of a message, full or partial, is compressed differently, so a full block is not
 * compressed until more data follows.
 */
static __always_inline void update(blake2s_blocks_t *blocks, const void *ctx __maybe_unused,
				   struct blake2s_state *s, const u8 *data, size_t len)
{
	const size_t room = BLAKE2S_BLOCK_SIZE - s->kept;

	if (len > room) {
		size_t n;

		if (s->kept) {
			memcpy(s->buffer + s->kept, data, room);
			blocks(s->h, s->buffer, 1, s->bytes + BLAKE2S_BLOCK_SIZE, 0);
			s->bytes += BLAKE2S_BLOCK_SIZE;
			s->kept = 0;
			data += room;
			len -= room;
		}
		n = (len - 1) / BLAKE2S_BLOCK_SIZE;
		if (n) {
			blocks(s->h, data, n, s->bytes + BLAKE2S_BLOCK_SIZE, 0);
			n *= BLAKE2S_BLOCK_SIZE;
			s->bytes += n;
			data += n;
			len -= n;
		}
	}
	memcpy(s->buffer + s->kept, data, len);
	s->kept += len;
}

static __always_inline void final(blake2s_blocks_t *blocks, const void *ctx __maybe_unused,
				  struct blake2s_state *s, u8 *out)
{
	memset(s->buffer + s->kept, 0, BLAKE2S_BLOCK_SIZE - s->kept);
	blocks(s->h, s->buffer, 1, s->bytes + s->kept, ~0u);
	memcpy(out, s->h, BLAKE2S_DIGEST_SIZE);
	memzero_explicit(s, sizeof(*s));
}

#define DIGEST(digest, name, begin)                                                   \
static void digest##_##name(const void *ctx, const u8 *data, size_t len, u8 *out)     \
{                                                                                     \
	struct blake2s_state s __aligned(64);                                         \
										      \
	begin;                                                                        \
	update(blake2s_blocks_##name, ctx, &s, data, len);                            \
	final(blake2s_blocks_##name, ctx, &s, out);                                   \
}
#define TIER(name)                                                                    \
HASH_UPDATE(update_##name, update, blake2s_blocks_##name)                             \
HASH_FINAL(final_##name, final, blake2s_blocks_##name)                                \
DIGEST(digest, name, init(ctx, &s))                                                   \
DIGEST(mac_digest, name, mac_begin(ctx, &s, len))
TIER(generic)
TIER(aesni)
TIER(vaes_avx512)

#define COMMON(tier_name, prio)                                                       \
	.kind = KILN_HASH, .tier = KILN_TIER_##tier_name, .priority = prio,           \
	.constant_time = true, .digestsize = BLAKE2S_DIGEST_SIZE,                     \
	.blocksize = BLAKE2S_BLOCK_SIZE, .statesize = sizeof(struct blake2s_state),   \
	.class = KILN_SLOW
#define IMPL(name, tier_name, end, prio)                                              \
	{                                                                             \
		.alg = "blake2s-256", .driver = "blake2s-256-" end,                   \
		COMMON(tier_name, prio),                                              \
		.hash = { .init = init, .update = update_##name,                      \
			  .final = final_##name, .digest = digest_##name,             \
			  .valid = valid },                                           \
	}, {                                                                          \
		.alg = "blake2smac", .driver = "blake2smac-" end,                     \
		COMMON(tier_name, prio),                                              \
		.key_min = 1, .key_max = BLAKE2S_MAX_KEY, .key_step = 1,              \
		.ctxsize = sizeof(struct blake2smac_ctx), .setkey = mac_setkey,       \
		.hash = { .init = mac_init, .update = update_##name,                  \
			  .final = final_##name, .digest = mac_digest_##name,         \
			  .valid = valid },                                           \
	}

/*
 * The implementation in general-purpose registers has a higher priority than the SIMD
 * implementations. A round is a chain of 24 dependent operations in any kind of register, and the
 * latency of vector operations is never lower (Zen 5: 4.3 cycles per byte in general-purpose
 * registers, 8.1 with AVX-512, 10.3 with SSSE3).
 *
 * The algorithm name blake2smac is OpenSSL's. Linux has a single blake2s-256 with an optional key.
 */
static const struct kiln_impl impls[] = {
	IMPL(generic, GENERIC, "generic", 100),
	IMPL(aesni, AESNI, "ssse3", 80),
	IMPL(vaes_avx512, VAES_AVX512, "avx512", 90),
};

KILN_IMPLS(blake2s_impls, impls);
