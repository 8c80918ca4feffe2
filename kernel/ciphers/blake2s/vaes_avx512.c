/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * BLAKE2s on 128-bit vectors with AVX-512's rotations. One permutation selects all sixteen message
 * words of a round.
 */
#include <immintrin.h>

#include <kiln/types.h>

#define BLOCKS blake2s_blocks_vaes_avx512
#define MESSAGE const __m512i message = _mm512_loadu_si512(data);
#define v_pick(a, b, c, d) _mm512_castsi512_si128(_mm512_permutexvar_epi32(  \
	_mm512_zextsi128_si512(_mm_set_epi32(d, c, b, a)), message))
#define v_ror(v, n) _mm_ror_epi32(v, n)
#define v_end() _mm256_zeroupper()

#include "simd.h"
