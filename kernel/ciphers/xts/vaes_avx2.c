/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES-XTS with VAES on 256-bit vectors: Alder Lake, Zen 3, and wider parts on
 * which 512-bit vectors are masked.
 */
#include <immintrin.h>

#include <kiln/types.h>

#define XTS(name) xts_vaes_avx2_##name
#define VBLOCKS 2
#define MAIN 8

typedef __m256i vec_t;

#define v_load(p) _mm256_loadu_si256((const __m256i *)(p))
#define v_store(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define v_key(rk) _mm256_broadcastsi128_si256(_mm_load_si128((const __m128i *)(rk)))
#define v_zero() _mm256_setzero_si256()
#define v_xor(a, b) _mm256_xor_si256(a, b)
#define v_xor3(a, b, c) v_xor(v_xor(a, b), c)
#define v_enc(v, k) _mm256_aesenc_epi128(v, k)
#define v_enclast(v, k) _mm256_aesenclast_epi128(v, k)
#define v_dec(v, k) _mm256_aesdec_epi128(v, k)
#define v_declast(v, k) _mm256_aesdeclast_epi128(v, k)
#define v_sll(v, bits) _mm256_slli_epi64(v, bits)
#define v_srl(v, bits) _mm256_srli_epi64(v, bits)
#define v_bsll(v, bytes) _mm256_bslli_epi128(v, bytes)
#define v_bsrl(v, bytes) _mm256_bsrli_epi128(v, bytes)
#define v_clmul_hi(a, b) _mm256_clmulepi64_epi128(a, b, 0x01)
#define v_clmul_lo(a, b) _mm256_clmulepi64_epi128(a, b, 0x00)
#define v_poly() _mm256_broadcastsi128_si256(_mm_set_epi64x(0, 0x87))
#define v_tweaks(t) \
	_mm256_inserti128_si256(_mm256_castsi128_si256(t), mul_x(t), 1)
#define v_end() _mm256_zeroupper()

#include "xts_simd.h"
