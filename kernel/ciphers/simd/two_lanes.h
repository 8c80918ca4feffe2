/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* 256-bit vectors that hold 16 bytes of each of two blocks of a hash. */
#ifndef KILN_SIMD_TWO_LANES_H
#define KILN_SIMD_TWO_LANES_H

#include <immintrin.h>

#include <kiln/types.h>

#define LANES 2

typedef __m256i vec_t;

#define v_load1(p) _mm_loadu_si128((const __m128i *)(p))
/* Loads 16 bytes at @p and 16 at @p + @stride. */
#define v_load_lanes(p, stride)                                               \
	_mm256_inserti128_si256(_mm256_castsi128_si256(v_load1(p)),           \
				v_load1((p) + (stride)), 1)
#define v_store_lane(lane, p, v)                                              \
	_mm_storeu_si128((__m128i *)(p), _mm256_extracti128_si256(v, lane))
/*
 * Both macros fill the two lanes with the same 16 bytes: v_both() loads them from memory, and
 * v_bytes() combines two words.
 */
#define v_both(p) _mm256_broadcastsi128_si256(v_load1(p))
#define v_bytes(hi, lo) _mm256_broadcastsi128_si256(_mm_set_epi64x(hi, lo))
#define v_swap32(v) _mm256_shuffle_epi8(v, v_bytes(0x0c0d0e0f08090a0b, 0x0405060700010203))
#define v_swap64(v) _mm256_shuffle_epi8(v, v_bytes(0x08090a0b0c0d0e0f, 0x0001020304050607))
#define v_xor(a, b) _mm256_xor_si256(a, b)
#ifdef __AVX512VL__
#define v_xor3(a, b, c) _mm256_ternarylogic_epi32(a, b, c, 0x96)
#else
#define v_xor3(a, b, c) v_xor(v_xor(a, b), c)
#endif
#define v_end() _mm256_zeroupper()

#endif
