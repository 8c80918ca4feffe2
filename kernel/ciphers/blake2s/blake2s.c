// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* BLAKE2s: messages in pieces, the list of implementations. */
#include "blake2s.h"

#include <kiln/string.h>
#include <kiln/unaligned.h>

#include "../list.h"

static void init(const void *ctx, void *state)
{
	static const u32 iv[8] = BLAKE2S_IV;
	struct blake2s_state *s = state;

	(void)ctx;
	memcpy(s->h, iv, sizeof(iv));
	/* The parameter block: one leaf, no key, so many bytes of digest. */
	s->h[0] ^= 0x01010000 ^ BLAKE2S_DIGEST_SIZE;
	s->bytes = 0;
	s->kept = 0;
}

/* Of all blocks the last is kept, whole or not: it is compressed in another way. */
static __always_inline void update(blake2s_blocks_t *blocks, struct blake2s_state *s,
				   const u8 *data, size_t len)
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

static __always_inline void final(blake2s_blocks_t *blocks, struct blake2s_state *s, u8 *out)
{
	memset(s->buffer + s->kept, 0, BLAKE2S_BLOCK_SIZE - s->kept);
	blocks(s->h, s->buffer, 1, s->bytes + s->kept, ~0u);
	memcpy(out, s->h, BLAKE2S_DIGEST_SIZE);
	memzero_explicit(s, sizeof(*s));
}

#define TIER(name)                                                                    \
static void update_##name(const void *ctx, void *state, const u8 *data, size_t len)  \
{                                                                                     \
	(void)ctx;                                                                    \
	update(blake2s_blocks_##name, state, data, len);                              \
}                                                                                     \
static void final_##name(const void *ctx, void *state, u8 *out)                      \
{                                                                                     \
	(void)ctx;                                                                    \
	final(blake2s_blocks_##name, state, out);                                     \
}                                                                                     \
static void digest_##name(const void *ctx, const u8 *data, size_t len, u8 *out)      \
{                                                                                     \
	struct blake2s_state s __aligned(64);                                         \
										      \
	init(ctx, &s);                                                                \
	update(blake2s_blocks_##name, &s, data, len);                                 \
	final(blake2s_blocks_##name, &s, out);                                        \
}
TIER(generic)
TIER(aesni)
TIER(vaes_avx512)

#define IMPL(name, tier_name, driver_name, prio)                                      \
	{                                                                             \
		.alg = "blake2s-256", .driver = driver_name, .kind = KILN_HASH,       \
		.tier = KILN_TIER_##tier_name, .priority = prio,                      \
		.constant_time = true, .digestsize = BLAKE2S_DIGEST_SIZE,             \
		.blocksize = BLAKE2S_BLOCK_SIZE,                                      \
		.statesize = sizeof(struct blake2s_state),                            \
		.hash = { init, update_##name, final_##name, digest_##name },         \
	}

/*
 * General registers are preferred: the chain of a round is 24 operations long, whatever the
 * registers, and theirs never take more cycles (Zen 5: 4.3 cycles a byte, 8.1 with AVX-512,
 * 10.3 with SSSE3).
 */
static const struct kiln_impl impls[] = {
	IMPL(generic, GENERIC, "blake2s-256-generic", 100),
	IMPL(aesni, AESNI, "blake2s-256-ssse3", 80),
	IMPL(vaes_avx512, VAES_AVX512, "blake2s-256-avx512", 90),
};

KILN_IMPLS(blake2s_impls, impls);
