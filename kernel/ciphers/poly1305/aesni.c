/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Poly1305 on 128-bit vectors, using only SSE encodings. */
#include "../simd/vec_xmm.h"

#define BLOCKS poly1305_blocks_aesni

#define v_power(p) _mm_cvtepu32_epi64(_mm_loadl_epi64((const __m128i *)(p)))
#define v_at_first(x) _mm_cvtsi64_si128((long long)(x))
#define v_sum64(v) ((u64)_mm_cvtsi128_si64(_mm_add_epi64(v, _mm_unpackhi_epi64(v, v))))

#include "simd26.h"
