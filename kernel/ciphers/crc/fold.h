/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Folding for the SIMD CRCs. Include this after one of ../simd/vec_*.h. */
#ifndef KILN_CRC_FOLD_H
#define KILN_CRC_FOLD_H

/* Multipliers that move 16 bytes forward: one for the lower half and one for the upper half. */
struct move {
	u64 lower, upper;
};

static __always_inline vec_t wide(const struct move *m)
{
	return v_all(_mm_loadu_si128((const __m128i *)m));
}

/* Multiplies each block of @v by the multipliers in @by and adds (XORs) @more. */
static __always_inline vec_t fold(vec_t v, vec_t by, vec_t more)
{
	return v_xor3(v_clmul(v, by, 0x00), v_clmul(v, by, 0x11), more);
}

#if VBLOCKS == 4
/*
 * Multiplies each lane of @v by its multipliers in @by, which moves the lane to the position of the
 * last lane, and adds (XORs) all lanes. The multipliers of the last lane are zero: it is already in
 * its position and is added unchanged.
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
#endif

#endif
