/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* ChaCha20 on 128-bit vectors, in SSE encodings. */
#include <immintrin.h>

#include <kiln/types.h>

#define CHACHA(name) chacha_##name##_aesni
#define LANES 1
#define SETS 1

typedef __m128i vec_t;

#define v_load(p) _mm_loadu_si128((const __m128i *)(p))
#define v_store(p, v) _mm_storeu_si128((__m128i *)(p), v)
#define v_all(x) _mm_set1_epi32((int)(x))
#define v_each(p) v_load(p)
#define v_first(n) _mm_cvtsi32_si128((int)(n))
#define v_add(a, b) _mm_add_epi32(a, b)
#define v_xor(a, b) _mm_xor_si128(a, b)
#define v_lo32(a, b) _mm_unpacklo_epi32(a, b)
#define v_hi32(a, b) _mm_unpackhi_epi32(a, b)
#define v_lo64(a, b) _mm_unpacklo_epi64(a, b)
#define v_hi64(a, b) _mm_unpackhi_epi64(a, b)
#define v_end() do { } while (0)

#define V_VAR_x(i) vec_t x##i
#define V_ADD(a, b) a = v_add(a, b);
#define V_XOR(a, b) a = v_xor(a, b);
#define V_ROL(a, n) a = rol(a, n);
#define V_TURN(a, imm) a = _mm_shuffle_epi32(a, imm);

/* By whole bytes in one instruction. */
static __always_inline vec_t rol(vec_t v, const int n)
{
	const vec_t by16 = _mm_set_epi64x(0x0d0c0f0e09080b0a, 0x0504070601000302);
	const vec_t by8 = _mm_set_epi64x(0x0e0d0c0f0a09080b, 0x0605040702010003);

	if (n == 16)
		return _mm_shuffle_epi8(v, by16);
	if (n == 8)
		return _mm_shuffle_epi8(v, by8);
	return _mm_or_si128(_mm_slli_epi32(v, n), _mm_srli_epi32(v, 32 - n));
}

/* A row is a quarter of its block. */
#define v_lanes(a, b, c, d) do { } while (0)

#include "chacha_simd.h"
