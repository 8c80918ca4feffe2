/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Poly1305 on 256-bit vectors. */
#include "../simd/vec_ymm.h"

#define BLOCKS poly1305_blocks_avx2

/* Unpacking leaves the blocks in the order 0, 2, 1, 3, so put the powers in that order, too. */
#define v_power(p) _mm256_permute4x64_epi64(_mm256_cvtepu32_epi64(                   \
	_mm_loadu_si128((const __m128i *)(p))), 0xd8)
#define v_at_first(x) _mm256_zextsi128_si256(_mm_cvtsi64_si128((long long)(x)))
#define v_sum64(v) sum_words(v)

static __always_inline u64 sum_words(vec_t v)
{
	__m128i s = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

	return (u64)_mm_cvtsi128_si64(_mm_add_epi64(s, _mm_unpackhi_epi64(s, s)));
}

#include "simd26.h"
