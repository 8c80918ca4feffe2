/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Vectors of two blocks. VAES and VPCLMULQDQ are available on Alder Lake, Zen 3 and the CPUs named
 * in vec_zmm.h, even where 512-bit vectors are disabled. vec.h explains the operations.
 */
#ifndef KILN_SIMD_VEC_YMM_H
#define KILN_SIMD_VEC_YMM_H

#include "vec.h"

#define VBLOCKS 2
#define MAIN 8

typedef __m256i vec_t;

#define V(op) _mm256_##op
#define V_WHOLE(op) _mm256_##op##_si256
#define V_BLOCKS(op) _mm256_##op##_epi128

#define v_all(x) _mm256_broadcastsi128_si256(x)
#define v_one(x) _mm256_zextsi128_si256(x)
#define v_pair(x, y) _mm256_inserti128_si256(_mm256_castsi128_si256(x), y, 1)
#define v_xor3(a, b, c) v_xor(v_xor(a, b), c)
#define v_number() _mm256_set_epi64x(0, 1, 0, 0)
#define v_set64(hi, lo) _mm256_set_epi64x(hi, lo, hi, lo)
#define v_before(prev, v) _mm256_permute2x128_si256(prev, v, 0x21)
#define v_first(v) _mm256_castsi256_si128(v)
#define v_sum(v) _mm_xor_si128(v_first(v), _mm256_extracti128_si256(v, 1))
#define v_end() _mm256_zeroupper()

#endif
