// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * SHA-256: messages in pieces, padding, and the list of implementations.
 */
#include "sha256.h"

#include <kiln/string.h>
#include <kiln/unaligned.h>

#include "../list.h"

static void init(const void *ctx, void *state)
{
	static const u32 h[8] = {
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	};
	struct sha256_state *s = state;

	(void)ctx;
	memcpy(s->h, h, sizeof(h));
	s->bytes = 0;
}

static __always_inline void update(sha256_blocks_t *blocks, struct sha256_state *s,
				   const u8 *data, size_t len)
{
	const size_t kept = s->bytes % SHA256_BLOCK_SIZE;

	s->bytes += len;
	if (kept) {
		size_t n = SHA256_BLOCK_SIZE - kept;

		n = n < len ? n : len;
		memcpy(s->buffer + kept, data, n);
		data += n;
		len -= n;
		if (kept + n < SHA256_BLOCK_SIZE)
			return;
		blocks(s->h, s->buffer, 1);
	}
	if (len >= SHA256_BLOCK_SIZE)
		blocks(s->h, data, len / SHA256_BLOCK_SIZE);
	memcpy(s->buffer, data + (len & ~(size_t)(SHA256_BLOCK_SIZE - 1)),
	       len % SHA256_BLOCK_SIZE);
}

/* FIPS 180-4, 5.1.1 */
static __always_inline void final(sha256_blocks_t *blocks, struct sha256_state *s, u8 *out)
{
	const size_t kept = s->bytes % SHA256_BLOCK_SIZE;
	const size_t all = kept < 56 ? SHA256_BLOCK_SIZE : 2 * SHA256_BLOCK_SIZE;
	u8 last[2 * SHA256_BLOCK_SIZE] __aligned(16) = { 0 };
	int i;

	memcpy(last, s->buffer, kept);
	last[kept] = 0x80;
	put_le64(__builtin_bswap64(8 * s->bytes), last + all - 8);
	blocks(s->h, last, all / SHA256_BLOCK_SIZE);
	for (i = 0; i < 8; i++)
		put_le32(__builtin_bswap32(s->h[i]), out + 4 * i);
	memzero_explicit(last, sizeof(last));
	memzero_explicit(s, sizeof(*s));
}

#define TIER(name)                                                                    \
static void update_##name(const void *ctx, void *state, const u8 *data, size_t len)  \
{                                                                                     \
	(void)ctx;                                                                    \
	update(sha256_blocks_##name, state, data, len);                               \
}                                                                                     \
static void final_##name(const void *ctx, void *state, u8 *out)                      \
{                                                                                     \
	(void)ctx;                                                                    \
	final(sha256_blocks_##name, state, out);                                      \
}                                                                                     \
static void digest_##name(const void *ctx, const u8 *data, size_t len, u8 *out)      \
{                                                                                     \
	struct sha256_state s __aligned(64);                                          \
										      \
	init(ctx, &s);                                                                \
	update(sha256_blocks_##name, &s, data, len);                                  \
	final(sha256_blocks_##name, &s, out);                                         \
}
TIER(generic)

#define IMPL(name, tier_name, driver_name, prio)                                      \
	{                                                                             \
		.alg = "sha256", .driver = driver_name, .kind = KILN_HASH,            \
		.tier = KILN_TIER_##tier_name, .priority = prio,                      \
		.constant_time = true, .digestsize = SHA256_DIGEST_SIZE,              \
		.blocksize = SHA256_BLOCK_SIZE,                                       \
		.statesize = sizeof(struct sha256_state),                             \
		.hash = { init, update_##name, final_##name, digest_##name },         \
	}

static const struct kiln_impl impls[] = {
	IMPL(generic, GENERIC, "sha256-generic", 100),
};

KILN_IMPLS(sha2_impls, impls);
