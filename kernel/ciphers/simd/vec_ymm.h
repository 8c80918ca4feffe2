/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Vectors of two AES blocks, with VAES and VPCLMULQDQ: Alder Lake, Zen 3, and wider parts on
 * which 512-bit vectors are masked. What the operations are: rounds.h.
 */
#ifndef KILN_SIMD_VEC_YMM_H
#define KILN_SIMD_VEC_YMM_H

#include <immintrin.h>

#include <kiln/types.h>

#define VBLOCKS 2
#define MAIN 8

typedef __m256i vec_t;

#define v_load(p) _mm256_loadu_si256((const __m256i *)(p))
#define v_store(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define v_all(x) _mm256_broadcastsi128_si256(x)
#define v_one(x) _mm256_zextsi128_si256(x)
#define v_pair(x, y) _mm256_inserti128_si256(_mm256_castsi128_si256(x), y, 1)
#define v_zero() _mm256_setzero_si256()
#define v_xor(a, b) _mm256_xor_si256(a, b)
#define v_xor3(a, b, c) v_xor(v_xor(a, b), c)
#define v_enc(v, k) _mm256_aesenc_epi128(v, k)
#define v_enclast(v, k) _mm256_aesenclast_epi128(v, k)
#define v_dec(v, k) _mm256_aesdec_epi128(v, k)
#define v_declast(v, k) _mm256_aesdeclast_epi128(v, k)
#define v_shuffle(v, pattern) _mm256_shuffle_epi8(v, pattern)
#define v_swap(v) _mm256_shuffle_epi32(v, 0x4e)
#define v_sll(v, bits) _mm256_slli_epi64(v, bits)
#define v_srl(v, bits) _mm256_srli_epi64(v, bits)
#define v_bsll(v, bytes) _mm256_bslli_epi128(v, bytes)
#define v_bsrl(v, bytes) _mm256_bsrli_epi128(v, bytes)
#define v_add64(a, b) _mm256_add_epi64(a, b)
#define v_clmul(a, b, halves) _mm256_clmulepi64_epi128(a, b, halves)
#define v_number() _mm256_set_epi64x(0, 1, 0, 0)
#define v_low64(n) _mm256_set_epi64x(0, n, 0, n)
#define v_before(prev, v) _mm256_permute2x128_si256(prev, v, 0x21)
#define v_first(v) _mm256_castsi256_si128(v)
#define v_sum(v) _mm_xor_si128(v_first(v), _mm256_extracti128_si256(v, 1))
#define v_end() _mm256_zeroupper()

#endif
