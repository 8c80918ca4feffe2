/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The lanes of a 512-bit vector, folded to one. */
#include <immintrin.h>

#include <kiln/types.h>

/*
 * Each lane of @v moved to the place of the last by the multipliers in @by, and all added. Those
 * of the last lane are zero: it stays where it is.
 */
static __always_inline __m128i sum_lanes(__m512i v, __m512i by)
{
	const __m128i last = _mm512_extracti32x4_epi32(v, 3);
	__m256i half;

	v = _mm512_xor_si512(_mm512_clmulepi64_epi128(v, by, 0x00),
			     _mm512_clmulepi64_epi128(v, by, 0x11));
	half = _mm256_xor_si256(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
	return _mm_xor_si128(_mm_xor_si128(_mm256_castsi256_si128(half), last),
			     _mm256_extracti128_si256(half, 1));
}
