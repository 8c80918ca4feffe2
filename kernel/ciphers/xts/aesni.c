/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES-XTS with AES-NI, in SSE encodings only: every part since Westmere, and
 * those whose operating system does not save more than xmm.
 */
#include <immintrin.h>

#include <kiln/types.h>

#define XTS(name) xts_aesni_##name
#define VBLOCKS 1
#define MAIN 8

typedef __m128i vec_t;

#define v_load(p) _mm_loadu_si128((const __m128i *)(p))
#define v_store(p, v) _mm_storeu_si128((__m128i *)(p), v)
#define v_key(rk) _mm_load_si128((const __m128i *)(rk))
#define v_zero() _mm_setzero_si128()
#define v_xor(a, b) _mm_xor_si128(a, b)
#define v_xor3(a, b, c) v_xor(v_xor(a, b), c)
#define v_enc(v, k) _mm_aesenc_si128(v, k)
#define v_enclast(v, k) _mm_aesenclast_si128(v, k)
#define v_dec(v, k) _mm_aesdec_si128(v, k)
#define v_declast(v, k) _mm_aesdeclast_si128(v, k)
#define v_sll(v, bits) _mm_slli_epi64(v, bits)
#define v_srl(v, bits) _mm_srli_epi64(v, bits)
#define v_bsll(v, bytes) _mm_bslli_si128(v, bytes)
#define v_bsrl(v, bytes) _mm_bsrli_si128(v, bytes)
#define v_clmul_hi(a, b) _mm_clmulepi64_si128(a, b, 0x01)
#define v_clmul_lo(a, b) _mm_clmulepi64_si128(a, b, 0x00)
#define v_poly() _mm_set_epi64x(0, 0x87)
#define v_tweaks(t) (t)
#define v_end() do { } while (0)

#include "xts_simd.h"
