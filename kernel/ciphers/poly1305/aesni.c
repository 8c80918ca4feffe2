/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Poly1305 on 128-bit vectors, in SSE encodings. */
#include <immintrin.h>

#include <kiln/types.h>

#define BLOCKS poly1305_blocks_aesni
#define LANES 2
#define FEW_BLOCKS 12

typedef __m128i vec_t;

#define v_load(p) _mm_loadu_si128((const __m128i *)(p))
#define v_all(x) _mm_set1_epi64x((long long)(x))
#define v_add(a, b) _mm_add_epi64(a, b)
#define v_and(a, b) _mm_and_si128(a, b)
#define v_or(a, b) _mm_or_si128(a, b)
#define v_sll(a, n) _mm_slli_epi64(a, n)
#define v_srl(a, n) _mm_srli_epi64(a, n)
#define v_mul(a, b) _mm_mul_epu32(a, b)
#define v_lo64(a, b) _mm_unpacklo_epi64(a, b)
#define v_hi64(a, b) _mm_unpackhi_epi64(a, b)
#define v_power(p) _mm_cvtepu32_epi64(_mm_loadl_epi64((const __m128i *)(p)))
#define v_at_first(x) _mm_cvtsi64_si128((long long)(x))
#define v_sum(v) ((u64)_mm_cvtsi128_si64(_mm_add_epi64(v, _mm_unpackhi_epi64(v, v))))
#define v_end() do { } while (0)

#include "simd26.h"
