/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* NH on 128-bit vectors, in SSE encodings. */
#include <immintrin.h>

#include <kiln/types.h>

#define NH nh_aesni
#define LANES 1

typedef __m128i vec_t;

#define v_load(p) _mm_loadu_si128((const __m128i *)(p))
#define v_add32(a, b) _mm_add_epi32(a, b)
#define v_add64(a, b) _mm_add_epi64(a, b)
#define v_zero() _mm_setzero_si128()
#define v_order(v) _mm_shuffle_epi32(v, 0xd8)
#define v_mul(v) mul_halves(v)
#define v_end() do { } while (0)

static __always_inline vec_t mul_halves(vec_t v)
{
	return _mm_mul_epu32(v, _mm_srli_epi64(v, 32));
}

#define v_put(sum, s0, s1, s2, s3)                                            \
	do {                                                                  \
		_mm_storeu_si128((__m128i *)(sum), v_add64(                   \
			_mm_unpacklo_epi64(s0, s1), _mm_unpackhi_epi64(s0, s1))); \
		_mm_storeu_si128((__m128i *)(sum) + 1, v_add64(               \
			_mm_unpacklo_epi64(s2, s3), _mm_unpackhi_epi64(s2, s3))); \
	} while (0)

#define REST(n)

#include "nh_simd.h"
