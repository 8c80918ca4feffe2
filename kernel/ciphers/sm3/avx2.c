/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SM3 with AVX2 and BMI2: Haswell, Zen and later.
 */
#include <immintrin.h>

#include <kiln/types.h>

#define SM3(name) sm3_##name##_avx2

typedef __m256i vec_t;

#define v_load1(p) _mm_loadu_si128((const __m128i *)(p))
#define v_load(p, stride)                                                     \
	_mm256_inserti128_si256(_mm256_castsi128_si256(v_load1(p)),           \
				v_load1((p) + (stride)), 1)
#define v_store(lane, p, v)                                                   \
	_mm_storeu_si128((__m128i *)(p), _mm256_extracti128_si256(v, lane))
#define v_bytes(hi, lo) _mm256_broadcastsi128_si256(_mm_set_epi64x(hi, lo))
#define v_swap(v) _mm256_shuffle_epi8(v, v_bytes(0x0c0d0e0f08090a0b, 0x0405060700010203))
#define v_rol8(v) _mm256_shuffle_epi8(v, v_bytes(0x0e0d0c0f0a09080b, 0x0605040702010003))
#define v_xor(a, b) _mm256_xor_si256(a, b)
#define v_xor3(a, b, c) v_xor(v_xor(a, b), c)
#define v_rol(v, n) v_xor(_mm256_slli_epi32(v, n), _mm256_srli_epi32(v, 32 - (n)))
#define v_align(hi, lo, n) _mm256_alignr_epi8(hi, lo, 4 * (n))
#define v_zero_32(p) _mm256_store_si256((__m256i *)(p), _mm256_setzero_si256())
#define v_zero_64(p) do { v_zero_32(p); v_zero_32((p) + 32); } while (0)
#define v_end() _mm256_zeroupper()

static inline __attribute__((always_inline)) vec_t v_p1(vec_t x)
{
	const vec_t x15 = v_rol(x, 15);

	return v_xor3(x, x15, v_rol8(x15));
}

#include "sm3_simd.h"
