/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Vectors of four blocks. VAES and VPCLMULQDQ exist on Ice Lake, Zen 4 and later. vec.h explains
 * the operations.
 */
#ifndef KILN_SIMD_VEC_ZMM_H
#define KILN_SIMD_VEC_ZMM_H

#include "blocks_zmm.h"
#include "vec.h"

#define VBLOCKS 4
#define MAIN 16

typedef __m512i vec_t;

#define V(op) _mm512_##op
#define V_WHOLE(op) _mm512_##op##_si512
#define V_BLOCKS(op) _mm512_##op##_epi128

#define v_all(x) _mm512_broadcast_i32x4(x)
#define v_one(x) _mm512_zextsi128_si512(x)
#define v_pair(x, y) \
	_mm512_zextsi256_si512(_mm256_inserti128_si256(_mm256_castsi128_si256(x), y, 1))
#define v_xor3(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0x96)
#define v_number() _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0)
#define v_set64(hi, lo) _mm512_set_epi64(hi, lo, hi, lo, hi, lo, hi, lo)
#define v_before(prev, v) _mm512_alignr_epi64(v, prev, 6)
#define v_first(v) _mm512_castsi512_si128(v)
#define v_end() _mm256_zeroupper()

static __always_inline __m128i v_sum(__m512i v)
{
	const __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(v),
					      _mm512_extracti64x4_epi64(v, 1));

	return _mm_xor_si128(_mm256_castsi256_si128(half),
			     _mm256_extracti128_si256(half, 1));
}

/*
 * Helpers for the first @n bytes of a vector, 0 < n <= 64. v_load_part() and v_keep() set the other
 * bytes to zero; v_store_part() leaves the memory after the @n bytes unchanged.
 */
#define v_mask(n) (~0ull >> (64 - (n)))
#define v_load_part(p, n) _mm512_maskz_loadu_epi8(v_mask(n), p)
#define v_store_part(p, n, v) _mm512_mask_storeu_epi8(p, v_mask(n), v)
#define v_keep(v, n) _mm512_maskz_mov_epi8(v_mask(n), v)

#endif
