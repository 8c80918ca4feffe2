/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * CRC-16/T10-DIF of short messages in xmm registers, for all SIMD tiers: a function small enough to
 * be inlined, and the reduction at the end of longer messages.
 *
 * The reduction takes four dependent multiplications, and each 16 bytes after the first 16 take two
 * more. On Zen 4, a multiplication can start every other cycle, and the dependency chains of
 * consecutive messages overlap. The lower limit is therefore eight cycles for 16 bytes and twenty
 * cycles for 64 bytes.
 *
 * Since the initial value is zero, zeros before a message do not change the CRC. Messages are
 * therefore padded to whole vectors at their beginning.
 */
#ifndef KILN_CRCT10DIF_SHORT_H
#define KILN_CRCT10DIF_SHORT_H

#include <immintrin.h>

#include "crc.h"

/* Up to this length, xmm registers are faster than wider vectors. */
#define SHORT_BYTES 63

/* A PSHUFB pattern that reverses the byte order, so that the first byte is on top. */
#define REVERSE16 _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f)

/*
 * from_top + n points to a PSHUFB pattern that moves bytes down by n and fills the top with zeros.
 */
static const u8 from_top[32] __aligned(16) = {
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
	0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
};

static __always_inline __m128i load16(const u8 *p)
{
	return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p), REVERSE16);
}

/* Shifts @v down so that only the first @n bytes remain. The first byte of @v is its top byte. */
static __always_inline __m128i keep_first(__m128i v, size_t n)
{
	return _mm_shuffle_epi8(v, _mm_loadu_si128((const __m128i *)(from_top + 16 - n)));
}

/* Returns @crc at the position of the first two of @n message bytes, n > 1, to XOR into them. */
static __always_inline __m128i put_crc16(u32 crc, size_t n)
{
	return keep_first(_mm_slli_si128(_mm_cvtsi32_si128((int)crc), 14), n);
}

/* Loads n < 16 bytes as two overlapping words through general-purpose registers. */
static __always_inline __m128i load_few(const u8 *p, size_t n)
{
	u64 hi = 0, lo;

	if (n >= 8) {
		/* Take the n - 8 bytes that precede the last 8. */
		hi = n == 8 ? 0 : __builtin_bswap64(get_le64(p)) >> 8 * (16 - n);
		lo = __builtin_bswap64(get_le64(p + n - 8));
	} else if (n >= 4) {
		lo = (u64)__builtin_bswap32(get_le32(p)) << 8 * (n - 4) |
		     __builtin_bswap32(get_le32(p + n - 4));
	} else {
		lo = (u64)p[0] << 8 * (n - 1) | (u64)p[n / 2] << 8 * (n - 1 - n / 2) |
		     p[n - 1];
	}
	return _mm_set_epi64x((long long)hi, (long long)lo);
}

/* Returns x^16 * v mod P. */
static __always_inline u32 reduce(__m128i v)
{
	/*
	 * k holds x^64 mod P in its lower half and P without its x^16 term in its upper half. mu is
	 * the quotient x^80 / P without its x^64 term.
	 */
	const __m128i k = _mm_set_epi64x(0x8bb7, 0xf249);
	const __m128i mu = _mm_set_epi64x(0, (long long)0xf65a57f81d33a48a);
	__m128i t, q;

	/* Reduce to 80 bits, then to 64, then by Barrett's method. */
	t = _mm_xor_si128(_mm_clmulepi64_si128(v, k, 0x01), _mm_move_epi64(v));
	t = _mm_xor_si128(_mm_clmulepi64_si128(t, k, 0x01), t);
	q = _mm_xor_si128(_mm_srli_si128(_mm_clmulepi64_si128(t, mu, 0x00), 8), t);
	return (u32)_mm_cvtsi128_si32(_mm_clmulepi64_si128(q, k, 0x10)) & 0xffff;
}

/* Processes a message of at most SHORT_BYTES bytes. */
static __always_inline u32 short_message(u32 crc, const u8 *data, size_t len)
{
	/* Multipliers x^192 and x^128 mod P, which move 16 bytes forward by 16 bytes. */
	const __m128i by = _mm_set_epi64x(0x1faa, 0xa010);
	size_t first = len % 16;
	__m128i v;

	if (likely(!first)) {
		if (unlikely(!len))
			return crc;
		first = 16;
		v = load16(data);
	} else {
		/*
		 * The 16-bit CRC is added to two bytes, but the first vector would contain only
		 * one. Process that byte by table look-up instead.
		 */
		if (unlikely(first == 1) && (crc || len == 1)) {
			crc = crct10dif_byte(crc, *data++);
			len--;
			if (!len)
				return crc;
			first = 16;
		}
		v = len >= 16 ? keep_first(load16(data), first) : load_few(data, first);
	}
	/* @crc is usually zero, because most messages are in one piece. */
	if (crc)
		v = _mm_xor_si128(v, put_crc16(crc, first));
	data += first;
	for (len -= first; len; len -= 16, data += 16)
		v = _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(v, by, 0x00),
						_mm_clmulepi64_si128(v, by, 0x11)),
				  load16(data));
	return reduce(v);
}

#endif
