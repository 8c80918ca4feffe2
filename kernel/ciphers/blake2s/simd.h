/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The template of the SIMD tiers of BLAKE2s. Each of four 128-bit vectors holds one row of the
 * state.
 *
 * The including file defines:
 *
 *	BLOCKS		name of the entry point
 *	v_ror(v, n)	rotates each word right by n, which is 16, 12, 8 or 7
 *	MESSAGE		loads a block
 *	v_pick(a, b, c, d)	returns words a, b, c and d of the block as a vector
 *
 * A round is one chain of 24 dependent operations. It takes 24 cycles where vector operations have
 * a latency of one cycle, and 48 on Zen 5, where general-purpose registers are faster.
 */

#include "blake2s.h"

#include <kiln/fpu_assert.h>
#include <kiln/unaligned.h>

#define HALF(m, r1, r2)                                                       \
	a = _mm_add_epi32(_mm_add_epi32(a, m), b);                            \
	d = v_ror(_mm_xor_si128(d, a), r1);                                   \
	c = _mm_add_epi32(c, d);                                              \
	b = v_ror(_mm_xor_si128(b, c), r2);
/* Row b is always ready last, so the other three rows are rotated to form the diagonals. */
#define ROUND(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, ma, mb, mc, md, me, mf) \
	HALF(v_pick(m0, m2, m4, m6), 16, 12)                                  \
	HALF(v_pick(m1, m3, m5, m7), 8, 7)                                    \
	a = _mm_shuffle_epi32(a, 0x93);                                       \
	d = _mm_shuffle_epi32(d, 0x4e);                                       \
	c = _mm_shuffle_epi32(c, 0x39);                                       \
	HALF(v_pick(me, m8, ma, mc), 16, 12)                                  \
	HALF(v_pick(mf, m9, mb, md), 8, 7)                                    \
	a = _mm_shuffle_epi32(a, 0x39);                                       \
	d = _mm_shuffle_epi32(d, 0x4e);                                       \
	c = _mm_shuffle_epi32(c, 0x93);

void BLOCKS(u32 h[8], const u8 *data, size_t blocks, u64 bytes, u32 last)
{
	static const u32 iv[8] __aligned(16) = BLAKE2S_IV;
	__m128i h0, h1;

	assert_fpu_section();
	h0 = _mm_loadu_si128((const __m128i *)h);
	h1 = _mm_loadu_si128((const __m128i *)(h + 4));
	for (; blocks; blocks--, data += BLAKE2S_BLOCK_SIZE, bytes += BLAKE2S_BLOCK_SIZE) {
		__m128i a = h0, b = h1, c = _mm_load_si128((const __m128i *)iv);
		__m128i d = _mm_xor_si128(_mm_load_si128((const __m128i *)(iv + 4)),
					  _mm_set_epi64x(last, (long long)bytes));
		MESSAGE

		BLAKE2S_ROUNDS(ROUND)
		h0 = _mm_xor_si128(h0, _mm_xor_si128(a, c));
		h1 = _mm_xor_si128(h1, _mm_xor_si128(b, d));
	}
	_mm_storeu_si128((__m128i *)h, h0);
	_mm_storeu_si128((__m128i *)(h + 4), h1);
	v_end();
}
