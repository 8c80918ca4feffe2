/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Poly1305 on 256-bit vectors. */
#include <immintrin.h>

#include <kiln/types.h>

#define BLOCKS poly1305_blocks_avx2
#define LANES 4
#define FEW_BLOCKS 12

typedef __m256i vec_t;

#define v_load(p) _mm256_loadu_si256((const __m256i *)(p))
#define v_all(x) _mm256_set1_epi64x((long long)(x))
#define v_add(a, b) _mm256_add_epi64(a, b)
#define v_and(a, b) _mm256_and_si256(a, b)
#define v_or(a, b) _mm256_or_si256(a, b)
#define v_sll(a, n) _mm256_slli_epi64(a, n)
#define v_srl(a, n) _mm256_srli_epi64(a, n)
#define v_mul(a, b) _mm256_mul_epu32(a, b)
#define v_lo64(a, b) _mm256_unpacklo_epi64(a, b)
#define v_hi64(a, b) _mm256_unpackhi_epi64(a, b)
/* Unpacking leaves the blocks in the order 0, 2, 1, 3. */
#define v_power(p) _mm256_permute4x64_epi64(_mm256_cvtepu32_epi64(                   \
	_mm_loadu_si128((const __m128i *)(p))), 0xd8)
#define v_at_first(x) _mm256_zextsi128_si256(_mm_cvtsi64_si128((long long)(x)))
#define v_sum(v) sum_words(v)
#define v_end() _mm256_zeroupper()

static __always_inline u64 sum_words(vec_t v)
{
	__m128i s = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

	return (u64)_mm_cvtsi128_si64(_mm_add_epi64(s, _mm_unpackhi_epi64(s, s)));
}

#include "simd26.h"
