/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The common parts of SHA-1, SHA-2 and SM3: big-endian words, a compression function that processes
 * one block after the other, and padding with a one bit and the length (FIPS 180-4, 5.1).
 *
 * A hash is described by a constant struct md. Each of its tiers provides a function for whole
 * blocks (md_blocks_t) and one for the end of a message or for a whole message (md_end_t). The
 * functions here are inlined into the tiers' functions and use general-purpose registers only.
 */
#ifndef KILN_CIPHERS_MERKLE_H
#define KILN_CIPHERS_MERKLE_H

#include <kiln/string.h>
#include <kiln/types.h>
#include <kiln/unaligned.h>

#include "entry.h"
#include "partial.h"

#define MD_MAX_BLOCK 128

struct md {
	u32 block;		/* block size in bytes: 64 (32-bit words) or 128 (64-bit words) */
	u32 digest;		/* digest size in bytes */
	const void *iv;		/* the initial state, padded to eight words */
};

struct md_state {
	u64 h[8];			/* state: eight words of 32 or 64 bits */
	u64 bytes;			/* bytes of the message so far, including those in buffer */
	u8 buffer[MD_MAX_BLOCK];	/* the last (bytes % block) bytes, not yet hashed */
};

/* Number of bytes of struct md_state that a hash with this block size uses. */
#define MD_STATE_SIZE(block) (offsetof(struct md_state, buffer) + (block))

/* Runs the compression function over @blocks blocks of @data; @blocks is at least 1. */
typedef void md_blocks_t(void *h, const u8 *data, size_t blocks);

/*
 * Finishes a message of @bytes bytes in total: hashes its last @len bytes, at @data, starting from
 * the state @h, and writes the digest to @out.
 */
typedef void md_end_t(const void *h, const u8 *data, size_t len, u64 bytes, u8 *out);

/*
 * Finishes hashes of several messages that all continue from the state @s (merkle_lanes.h). If
 * @outer is not NULL, the results are HMACs: each digest is hashed again, starting from the state
 * @outer, which results from hashing one block.
 */
typedef void md_many_t(const struct md_state *s, const void *outer,
		       const struct kiln_message *m, size_t count);

static __always_inline void put_be32(u32 v, void *p)
{
	put_le32(__builtin_bswap32(v), p);
}

static __always_inline void put_be64(u64 v, void *p)
{
	put_le64(__builtin_bswap64(v), p);
}

static __always_inline u32 get_be32(const void *p)
{
	return __builtin_bswap32(get_le32(p));
}

static __always_inline u64 get_be64(const void *p)
{
	return __builtin_bswap64(get_le64(p));
}

static __always_inline bool md_wide(const struct md *md)
{
	return md->block == 128;
}

static __always_inline void md_copy_words(const struct md *md, void *to, const void *from)
{
	if (md_wide(md))
		__builtin_memcpy(to, from, 64);
	else
		__builtin_memcpy(to, from, 32);
}

static __always_inline void md_put_digest(const struct md *md, const u64 *h, u8 *out)
{
	const u32 *h32 = (const u32 *)h;
	u32 i;

	if (md_wide(md)) {
		for (i = 0; i < md->digest / 8; i++)
			put_be64(h[i], out + 8 * i);
	} else {
		for (i = 0; i < md->digest / 4; i++)
			put_be32(h32[i], out + 4 * i);
	}
}

/* Starts from the state @h, which results from hashing @bytes bytes (whole blocks). */
static __always_inline void md_begin(const struct md *md, struct md_state *s, const void *h,
				     u64 bytes)
{
	md_copy_words(md, s->h, h);
	s->bytes = bytes;
}

static __always_inline void md_update(const struct md *md, md_blocks_t *blocks,
				      const void *ctx __maybe_unused, struct md_state *s,
				      const u8 *data, size_t len)
{
	u64 kept = s->bytes % md->block;
	size_t whole;

	s->bytes += len;
	if (kept) {
		if (!fill_block(s->buffer, &kept, md->block, &data, &len))
			return;
		blocks(s->h, s->buffer, 1);
	}
	whole = len / md->block;
	if (whole)
		blocks(s->h, data, whole);
	memcpy(s->buffer, data + whole * md->block, len % md->block);
}

/*
 * Implements md_end_t in general-purpose registers. SIMD tiers use md_pad() (merkle_simd.h)
 * instead.
 */
static __always_inline void md_end(const struct md *md, md_blocks_t *blocks, const void *from,
				   const u8 *data, size_t len, u64 bytes, u8 *out)
{
	const size_t whole = len / md->block, kept = len % md->block;
	const size_t room = md->block - md->block / 8;
	const size_t all = kept < room ? md->block : 2 * md->block;
	u8 last[2 * MD_MAX_BLOCK] __aligned(64);
	u64 h[8];

	md_copy_words(md, h, from);
	if (whole)
		blocks(h, data, whole);
	wipe_words(last, all);
	memcpy(last, data + whole * md->block, kept);
	last[kept] = 0x80;
	put_be64(8 * bytes, last + all - 8);
	if (md_wide(md))
		put_be64(bytes >> 61, last + all - 16);
	blocks(h, last, all / md->block);
	md_put_digest(md, h, out);
	wipe_words(last, all);
	wipe_words(h, sizeof(h));
}

static __always_inline void md_final(const struct md *md, md_end_t *end,
				     const void *ctx __maybe_unused, struct md_state *s,
				     u8 *out)
{
	end(s->h, s->buffer, s->bytes % md->block, s->bytes, out);
	wipe_words(s, MD_STATE_SIZE(md->block));
}

static __always_inline void md_digest(const struct md *md, md_end_t *end,
				      const void *ctx __maybe_unused, const u8 *data,
				      size_t len, u8 *out)
{
	end(md->iv, data, len, len, out);
}

static __always_inline void md_finish_many(md_many_t *many, const void *ctx __maybe_unused,
					   const struct md_state *s,
					   const struct kiln_message *m, size_t count)
{
	many(s, NULL, m, count);
}

/*
 * Each hash has a list macro that calls F once per tier, with these arguments: prefix of the hash's
 * constants, name of the hash, suffix of function names, tier, suffix of the driver's name,
 * priority, number of messages that the tier hashes in parallel (0 if it has no such function).
 */
#define MD_LANES_0(...)
#define MD_LANES_2(...) __VA_ARGS__
#define MD_LANES_4(...) __VA_ARGS__
#define MD_LANES_8(...) __VA_ARGS__
#define MD_LANES_16(...) __VA_ARGS__
#define MD_DECLARE(HASH, hash, tier, TIER, end, prio, n)                              \
	md_blocks_t hash##_blocks_##tier;                                             \
	md_end_t hash##_end_##tier;                                                   \
	MD_LANES_##n(md_many_t hash##_many_##tier;)
#define MD_TIER(HASH, hash, tier, TIER, end, prio, n)                                 \
HASH_UPDATE(hash##_update_##tier, md_update, &hash##_md, hash##_blocks_##tier)        \
HASH_FINAL(hash##_final_##tier, md_final, &hash##_md, hash##_end_##tier)              \
HASH_DIGEST(hash##_digest_##tier, md_digest, &hash##_md, hash##_end_##tier)           \
MD_LANES_##n(HASH_FINISH_MANY(hash##_finish_many_##tier, md_finish_many, hash##_many_##tier))

/* Defines a tier's md_end_t function from its md_blocks_t function. */
#define MD_END(hash, tier)                                                            \
void hash##_end_##tier(const void *h, const u8 *data, size_t len, u64 bytes, u8 *out) \
{                                                                                     \
	md_end(&hash##_md, hash##_blocks_##tier, h, data, len, bytes, out);           \
}

#define MD_INIT(hash)                                                                 \
static void hash##_init(const void *ctx __maybe_unused, void *state)                  \
{                                                                                     \
	md_begin(&hash##_md, state, hash##_md.iv, 0);                                 \
}

/* Table fields that are the same for a hash and its HMAC. */
#define MD_FIELDS(HASH, fn, tier_name, TIER, prio, n)                                 \
	.kind = KILN_HASH, .tier = KILN_TIER_##TIER, .priority = prio,                \
	.constant_time = true, .digestsize = HASH##_DIGEST,                           \
	.blocksize = HASH##_BLOCK, .statesize = MD_STATE_SIZE(HASH##_BLOCK),          \
	.class = KILN_SLOW,                                                           \
	.hash = { .init = fn##_init, .update = fn##_update_##tier_name,               \
		  .final = fn##_final_##tier_name, .digest = fn##_digest_##tier_name, \
		  MD_LANES_##n(.finish_many = fn##_finish_many_##tier_name, .lanes = n) }
#define MD_IMPL(HASH, fn, tier_name, TIER, end, prio, n)                              \
	{ .alg = #fn, .driver = #fn "-" end,                                          \
	  MD_FIELDS(HASH, fn, tier_name, TIER, prio, n) },

#endif
