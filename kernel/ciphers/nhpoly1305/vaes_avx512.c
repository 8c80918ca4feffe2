/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* NH on 512-bit vectors. */
#include "../simd/vec_zmm.h"

#define NH nh_vaes_avx512

#define v_put(sum, s0, s1, s2, s3)                                            \
	do {                                                                  \
		const vec_t s01 = v_add64(v_lo64(s0, s1), v_hi64(s0, s1));    \
		const vec_t s23 = v_add64(v_lo64(s2, s3), v_hi64(s2, s3));    \
		const vec_t low = _mm512_shuffle_i32x4(s01, s23, 0x44);       \
		const vec_t high = _mm512_shuffle_i32x4(s01, s23, 0xee);      \
		const vec_t s = v_add64(low, high);                           \
		const __m256i a = _mm512_castsi512_si256(s);                  \
		const __m256i b = _mm512_extracti64x4_epi64(s, 1);            \
									      \
		_mm256_storeu_si256((__m256i *)(sum), _mm256_add_epi64(       \
			_mm256_permute2x128_si256(a, b, 0x20),                \
			_mm256_permute2x128_si256(a, b, 0x31)));              \
	} while (0)

/* Processes the last @n units. Masks zero the words after these units in every sum. */
#define REST(n)                                                               \
	if (n) {                                                              \
		const __mmask16 mask = (__mmask16)((1u << 4 * n) - 1);        \
		const vec_t m = v_order(_mm512_maskz_loadu_epi32(mask, src)); \
									      \
		PASSES(REST_SUM, m)                                           \
		src += NH_UNIT * n;                                           \
	}
#define REST_SUM(m, k) _mm512_maskz_add_epi32(mask, m, _mm512_maskz_loadu_epi32(mask, k))

/*
 * Messages of up to this many units are shorter than a vector. They are processed without masks,
 * because the latency of masked operations would dominate.
 */
#define FEW 3
#define nh_few(key, src, units, sum)                                          \
	do {                                                                  \
		__m128i s0 = _mm_setzero_si128(), s1 = s0, s2 = s0, s3 = s0;  \
									      \
		for (; units; units--, src += NH_UNIT, key += 4) {            \
			const __m128i m = _mm_shuffle_epi32(load1(src), 0xd8); \
									      \
			FEW_PASS(s0, key)                                     \
			FEW_PASS(s1, key + 4)                                 \
			FEW_PASS(s2, key + 8)                                 \
			FEW_PASS(s3, key + 12)                                \
		}                                                             \
		store1(sum, _mm_add_epi64(_mm_unpacklo_epi64(s0, s1),         \
					  _mm_unpackhi_epi64(s0, s1)));       \
		store1((u8 *)(sum) + 16, _mm_add_epi64(_mm_unpacklo_epi64(s2, s3), \
						 _mm_unpackhi_epi64(s2, s3))); \
	} while (0)
#define load1(p) _mm_loadu_si128((const __m128i *)(p))
#define store1(p, v) _mm_storeu_si128((__m128i *)(p), v)
#define FEW_PASS(s, k)                                                        \
	do {                                                                  \
		const __m128i a = _mm_add_epi32(m, load1(k));                 \
									      \
		s = _mm_add_epi64(s, _mm_mul_epu32(a, _mm_srli_epi64(a, 32))); \
	} while (0);

#include "nh_simd.h"
