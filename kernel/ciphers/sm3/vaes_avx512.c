/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SM3 with AVX-512: rotations and sums of three terms by one instruction each.
 */
#include <immintrin.h>

#include <kiln/types.h>

#define SM3(name) sm3_##name##_avx512

typedef __m256i vec_t;

#define v_load1(p) _mm_loadu_si128((const __m128i *)(p))
#define v_load(p, stride)                                                     \
	_mm256_inserti128_si256(_mm256_castsi128_si256(v_load1(p)),           \
				v_load1((p) + (stride)), 1)
#define v_store(lane, p, v)                                                   \
	_mm_storeu_si128((__m128i *)(p), _mm256_extracti128_si256(v, lane))
#define v_bytes(hi, lo) _mm256_broadcastsi128_si256(_mm_set_epi64x(hi, lo))
#define v_swap(v) _mm256_shuffle_epi8(v, v_bytes(0x0c0d0e0f08090a0b, 0x0405060700010203))
#define v_xor(a, b) _mm256_xor_si256(a, b)
#define v_xor3(a, b, c) _mm256_ternarylogic_epi32(a, b, c, 0x96)
#define v_rol(v, n) _mm256_rol_epi32(v, n)
#define v_p1(x) v_xor3(x, v_rol(x, 15), v_rol(x, 23))
#define v_align(hi, lo, n) _mm256_alignr_epi8(hi, lo, 4 * (n))
#define v_zero_64(p) _mm512_store_si512(p, _mm512_setzero_si512())
#define v_end() _mm256_zeroupper()

#include "sm3_simd.h"
