/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* NH on 256-bit vectors. */
#include <immintrin.h>

#include <kiln/types.h>

#define NH nh_avx2
#define LANES 2

typedef __m256i vec_t;

#define v_load(p) _mm256_loadu_si256((const __m256i *)(p))
#define v_add32(a, b) _mm256_add_epi32(a, b)
#define v_add64(a, b) _mm256_add_epi64(a, b)
#define v_zero() _mm256_setzero_si256()
#define v_order(v) _mm256_shuffle_epi32(v, 0xd8)
#define v_mul(v) mul_halves(v)
#define v_end() _mm256_zeroupper()

static __always_inline vec_t mul_halves(vec_t v)
{
	return _mm256_mul_epu32(v, _mm256_srli_epi64(v, 32));
}

#define v_put(sum, s0, s1, s2, s3)                                            \
	do {                                                                  \
		const vec_t s01 = v_add64(_mm256_unpacklo_epi64(s0, s1),      \
					  _mm256_unpackhi_epi64(s0, s1));     \
		const vec_t s23 = v_add64(_mm256_unpacklo_epi64(s2, s3),      \
					  _mm256_unpackhi_epi64(s2, s3));     \
									      \
		_mm256_storeu_si256((__m256i *)(sum), v_add64(                \
			_mm256_permute2x128_si256(s01, s23, 0x20),            \
			_mm256_permute2x128_si256(s01, s23, 0x31)));          \
	} while (0)

/* One unit in the lower half; the upper half of each sum with the key is zero. */
#define HALF(p) _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)(p)))
#define REST(n)                                                               \
	if (n) {                                                              \
		const vec_t m = v_order(HALF(src));                           \
									      \
		s0 = v_add64(s0, v_mul(v_add32(m, HALF(k))));                 \
		s1 = v_add64(s1, v_mul(v_add32(m, HALF(k + 4))));             \
		s2 = v_add64(s2, v_mul(v_add32(m, HALF(k + 8))));             \
		s3 = v_add64(s3, v_mul(v_add32(m, HALF(k + 12))));            \
		src += NH_UNIT;                                               \
	}

#include "nh_simd.h"
