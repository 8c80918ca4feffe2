/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Builds the last blocks of a message in vector registers. If a block were written to memory in
 * smaller pieces and immediately read back with wider loads, the CPU could not forward the data
 * from the store buffer. The loads would wait until the stores reach the cache, which they do only
 * after all older instructions, including those of the previous blocks, have finished.
 */
#ifndef KILN_CIPHERS_MERKLE_SIMD_H
#define KILN_CIPHERS_MERKLE_SIMD_H

#include <immintrin.h>

#include "merkle.h"

static __always_inline __m128i md_load16(const u8 *p)
{
	return _mm_loadu_si128((const __m128i *)p);
}

static __always_inline void md_store16(u8 *p, __m128i v)
{
	_mm_store_si128((__m128i *)p, v);
}

/* Loads the @n < 16 bytes at @p, padded with zeros. */
static __always_inline __m128i md_load_few(const u8 *p, size_t n)
{
	u64 lo = 0, hi = 0;

	if (n > 8) {
		lo = get_le64(p);
		hi = get_le64(p + n - 8) >> 8 * (16 - n);
	} else if (n >= 4) {
		lo = get_le32(p) | (u64)get_le32(p + n - 4) << 8 * (n - 4);
	} else if (n) {
		lo = p[0] | (u64)p[n / 2] << 8 * (n / 2) | (u64)p[n - 1] << 8 * (n - 1);
	}
	return _mm_set_epi64x((long long)hi, (long long)lo);
}

/*
 * Builds the padded last blocks of a message of @bytes bytes. @rest points to the last @n bytes of
 * the message, fewer than a block. Returns the number of blocks written to @last, which has room
 * for two and does not overlap @rest.
 */
static __always_inline size_t md_pad(const struct md *md, u8 *last, const u8 *rest, size_t n,
				     u64 bytes)
{
	/* down + n points to a PSHUFB pattern that moves bytes down by n. */
	static const u8 down[32] __aligned(16) = {
		0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
		0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
		0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
	};
	/* one + 16 - n points to n zero bytes followed by the padding bit. */
	static const u8 one[32] __aligned(16) = { [16] = 0x80 };
	const size_t room = md->block - md->block / 8;
	const size_t all = n < room ? md->block : 2 * md->block;
	const size_t few = n % 16, at = n - few;
	const __m128i length = _mm_set_epi64x(
		(long long)__builtin_bswap64(8 * bytes),
		md_wide(md) ? (long long)__builtin_bswap64(bytes >> 61) : 0);
	__m128i end;
	size_t i;

	for (i = 0; i < at; i += 16)
		md_store16(last + i, md_load16(rest + i));
	for (; i < all; i += 16)
		md_store16(last + i, _mm_setzero_si128());
	if (n >= 16)
		end = _mm_shuffle_epi8(md_load16(rest + n - 16), md_load16(down + 16 - few));
	else
		end = md_load_few(rest, n);
	end = _mm_or_si128(end, md_load16(one + 16 - few));
	if (at == all - 16)
		end = _mm_or_si128(end, length);
	else
		md_store16(last + all - 16, length);
	md_store16(last + at, end);
	return all / md->block;
}

/* Returns the address of block @i: the first @blocks blocks are at @data, the rest at @last. */
static __always_inline const u8 *md_block_at(const struct md *md, const u8 *data, size_t blocks,
					     const u8 *last, size_t i)
{
	return i < blocks ? data + i * md->block : last + (i - blocks) * md->block;
}

static __always_inline void md_wipe(const struct md *md, u8 last[2 * MD_MAX_BLOCK],
				    size_t blocks)
{
	size_t i;

	for (i = 0; i < blocks * md->block; i += 16)
		md_store16(last + i, _mm_setzero_si128());
	__asm__ volatile("" : : "r"(last) : "memory");
}

#endif
