/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* BLAKE2s on 128-bit vectors, in SSE encodings. */
#include <immintrin.h>

#include <kiln/types.h>

#define BLOCKS blake2s_blocks_aesni
#define MESSAGE
#define v_pick(a, b, c, d) _mm_set_epi32((int)get_le32(data + 4 * (d)),       \
	(int)get_le32(data + 4 * (c)), (int)get_le32(data + 4 * (b)),         \
	(int)get_le32(data + 4 * (a)))
#define v_ror(v, n) ror(v, n)
#define v_end() do { } while (0)

/* By whole bytes in one instruction. */
static __always_inline __m128i ror(__m128i v, const int n)
{
	const __m128i by16 = _mm_set_epi64x(0x0d0c0f0e09080b0a, 0x0504070601000302);
	const __m128i by8 = _mm_set_epi64x(0x0c0f0e0d080b0a09, 0x0407060500030201);

	if (n == 16)
		return _mm_shuffle_epi8(v, by16);
	if (n == 8)
		return _mm_shuffle_epi8(v, by8);
	return _mm_or_si128(_mm_srli_epi32(v, n), _mm_slli_epi32(v, 32 - n));
}

#include "simd.h"
