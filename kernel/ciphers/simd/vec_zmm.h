/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Vectors of four AES blocks, with VAES and VPCLMULQDQ: Ice Lake, Zen 4 and later. What the
 * operations are: rounds.h.
 */
#ifndef KILN_SIMD_VEC_ZMM_H
#define KILN_SIMD_VEC_ZMM_H

#include <immintrin.h>

#include <kiln/types.h>

#include "blocks_zmm.h"

#define VBLOCKS 4
#define MAIN 16

typedef __m512i vec_t;

#define v_load(p) _mm512_loadu_si512(p)
#define v_store(p, v) _mm512_storeu_si512(p, v)
#define v_all(x) _mm512_broadcast_i32x4(x)
#define v_one(x) _mm512_zextsi128_si512(x)
#define v_pair(x, y) \
	_mm512_zextsi256_si512(_mm256_inserti128_si256(_mm256_castsi128_si256(x), y, 1))
#define v_zero() _mm512_setzero_si512()
#define v_xor(a, b) _mm512_xor_si512(a, b)
#define v_xor3(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0x96)
#define v_enc(v, k) _mm512_aesenc_epi128(v, k)
#define v_enclast(v, k) _mm512_aesenclast_epi128(v, k)
#define v_dec(v, k) _mm512_aesdec_epi128(v, k)
#define v_declast(v, k) _mm512_aesdeclast_epi128(v, k)
#define v_shuffle(v, pattern) _mm512_shuffle_epi8(v, pattern)
#define v_swap(v) _mm512_shuffle_epi32(v, 0x4e)
#define v_sll(v, bits) _mm512_slli_epi64(v, bits)
#define v_srl(v, bits) _mm512_srli_epi64(v, bits)
#define v_bsll(v, bytes) _mm512_bslli_epi128(v, bytes)
#define v_bsrl(v, bytes) _mm512_bsrli_epi128(v, bytes)
#define v_add64(a, b) _mm512_add_epi64(a, b)
#define v_clmul(a, b, halves) _mm512_clmulepi64_epi128(a, b, halves)
#define v_number() _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0)
#define v_low64(n) _mm512_set_epi64(0, n, 0, n, 0, n, 0, n)
#define v_before(prev, v) _mm512_alignr_epi64(v, prev, 6)
#define v_first(v) _mm512_castsi512_si128(v)
#define v_end() _mm256_zeroupper()

static __always_inline __m128i v_sum(__m512i v)
{
	const __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(v),
					      _mm512_extracti64x4_epi64(v, 1));

	return _mm_xor_si128(_mm256_castsi256_si128(half),
			     _mm256_extracti128_si256(half, 1));
}

/* The first @n bytes, 0 < n <= 64, the rest zero; and to memory. */
#define v_mask(n) (~0ull >> (64 - (n)))
#define v_load_part(p, n) _mm512_maskz_loadu_epi8(v_mask(n), p)
#define v_store_part(p, n, v) _mm512_mask_storeu_epi8(p, v_mask(n), v)
#define v_keep(v, n) _mm512_maskz_mov_epi8(v_mask(n), v)

#endif
