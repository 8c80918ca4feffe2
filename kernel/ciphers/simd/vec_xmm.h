/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Vectors of one AES block, in SSE encodings only: every part since Westmere, and those whose
 * operating system does not save more than xmm. What the operations are: rounds.h.
 */
#ifndef KILN_SIMD_VEC_XMM_H
#define KILN_SIMD_VEC_XMM_H

#include <immintrin.h>

#include <kiln/types.h>

#define VBLOCKS 1
#define MAIN 8

typedef __m128i vec_t;

#define v_load(p) _mm_loadu_si128((const __m128i *)(p))
#define v_store(p, v) _mm_storeu_si128((__m128i *)(p), v)
#define v_all(x) (x)
#define v_one(x) (x)
#define v_zero() _mm_setzero_si128()
#define v_xor(a, b) _mm_xor_si128(a, b)
#define v_xor3(a, b, c) v_xor(v_xor(a, b), c)
#define v_enc(v, k) _mm_aesenc_si128(v, k)
#define v_enclast(v, k) _mm_aesenclast_si128(v, k)
#define v_dec(v, k) _mm_aesdec_si128(v, k)
#define v_declast(v, k) _mm_aesdeclast_si128(v, k)
#define v_shuffle(v, pattern) _mm_shuffle_epi8(v, pattern)
#define v_swap(v) _mm_shuffle_epi32(v, 0x4e)
#define v_sll(v, bits) _mm_slli_epi64(v, bits)
#define v_srl(v, bits) _mm_srli_epi64(v, bits)
#define v_bsll(v, bytes) _mm_bslli_si128(v, bytes)
#define v_bsrl(v, bytes) _mm_bsrli_si128(v, bytes)
#define v_add64(a, b) _mm_add_epi64(a, b)
#define v_clmul(a, b, halves) _mm_clmulepi64_si128(a, b, halves)
#define v_number() _mm_setzero_si128()
#define v_low64(n) _mm_set_epi64x(0, n)
#define v_before(prev, v) (prev)
#define v_sum(v) (v)
#define v_first(v) (v)
#define v_end() do { } while (0)

#endif
