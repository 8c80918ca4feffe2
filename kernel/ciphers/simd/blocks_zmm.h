/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Loads and stores the first few AES blocks of a vector. */
#ifndef KILN_SIMD_BLOCKS_ZMM_H
#define KILN_SIMD_BLOCKS_ZMM_H

#include <immintrin.h>

#include <kiln/types.h>

/*
 * v_load_blocks() and v_store_blocks() access the first @n blocks of a vector at @p. They use masks
 * unless the vector would extend into the next page: if that page is not mapped, a masked access
 * takes 400 cycles, even though the mask excludes all bytes of that page.
 */
static __always_inline bool within_page(const void *p)
{
	return ((unsigned long)p & 4095) <= 4096 - sizeof(__m512i);
}

static __always_inline __m512i v_load_blocks(const u8 *p, size_t n)
{
	__m512i v;

	if (likely(within_page(p)))
		return _mm512_maskz_loadu_epi64((__mmask8)((1u << 2 * n) - 1), p);
	v = _mm512_zextsi128_si512(_mm_loadu_si128((const __m128i *)p));
	if (n > 1)
		v = _mm512_inserti64x2(v, _mm_loadu_si128((const __m128i *)p + 1), 1);
	if (n > 2)
		v = _mm512_inserti64x2(v, _mm_loadu_si128((const __m128i *)p + 2), 2);
	if (n > 3)
		v = _mm512_inserti64x2(v, _mm_loadu_si128((const __m128i *)p + 3), 3);
	return v;
}

static __always_inline void v_store_blocks(u8 *p, size_t n, __m512i v)
{
	if (likely(within_page(p))) {
		_mm512_mask_storeu_epi64(p, (__mmask8)((1u << 2 * n) - 1), v);
		return;
	}
	if (n > 0)
		_mm_storeu_si128((__m128i *)p, _mm512_castsi512_si128(v));
	if (n > 1)
		_mm_storeu_si128((__m128i *)p + 1, _mm512_extracti64x2_epi64(v, 1));
	if (n > 2)
		_mm_storeu_si128((__m128i *)p + 2, _mm512_extracti64x2_epi64(v, 2));
	if (n > 3)
		_mm_storeu_si128((__m128i *)p + 3, _mm512_extracti64x2_epi64(v, 3));
}

#endif
