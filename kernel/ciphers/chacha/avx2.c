/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* ChaCha20 on 256-bit vectors. */
#include <immintrin.h>

#include <kiln/types.h>

#define CHACHA(name) chacha_##name##_avx2
#define LANES 2
#define SETS 1

typedef __m256i vec_t;

#define v_load(p) _mm256_loadu_si256((const __m256i *)(p))
#define v_store(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define v_all(x) _mm256_set1_epi32((int)(x))
#define v_each(p) _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(p)))
#define v_first(n) _mm256_blend_epi32(_mm256_setzero_si256(), v_all(n), 0x11)
#define v_add(a, b) _mm256_add_epi32(a, b)
#define v_xor(a, b) _mm256_xor_si256(a, b)
#define v_lo32(a, b) _mm256_unpacklo_epi32(a, b)
#define v_hi32(a, b) _mm256_unpackhi_epi32(a, b)
#define v_lo64(a, b) _mm256_unpacklo_epi64(a, b)
#define v_hi64(a, b) _mm256_unpackhi_epi64(a, b)
#define v_end() _mm256_zeroupper()

#define V_VAR_x(i) vec_t x##i
#define V_ADD(a, b) a = v_add(a, b);
#define V_XOR(a, b) a = v_xor(a, b);
#define V_ROL(a, n) a = rol(a, n);
#define V_TURN(a, imm) a = _mm256_shuffle_epi32(a, imm);

/* By whole bytes in one instruction. */
static __always_inline vec_t rol(vec_t v, const int n)
{
	const vec_t by16 = _mm256_set_epi64x(0x0d0c0f0e09080b0a, 0x0504070601000302,
					     0x0d0c0f0e09080b0a, 0x0504070601000302);
	const vec_t by8 = _mm256_set_epi64x(0x0e0d0c0f0a09080b, 0x0605040702010003,
					    0x0e0d0c0f0a09080b, 0x0605040702010003);

	if (n == 16)
		return _mm256_shuffle_epi8(v, by16);
	if (n == 8)
		return _mm256_shuffle_epi8(v, by8);
	return _mm256_or_si256(_mm256_slli_epi32(v, n), _mm256_srli_epi32(v, 32 - n));
}

#define v_lanes(a, b, c, d)                                                   \
	do {                                                                  \
		const vec_t ab0 = _mm256_permute2x128_si256(a, b, 0x20);      \
		const vec_t ab1 = _mm256_permute2x128_si256(a, b, 0x31);      \
		const vec_t cd0 = _mm256_permute2x128_si256(c, d, 0x20);      \
		const vec_t cd1 = _mm256_permute2x128_si256(c, d, 0x31);      \
									      \
		a = ab0;                                                      \
		b = cd0;                                                      \
		c = ab1;                                                      \
		d = cd1;                                                      \
	} while (0)

#include "chacha_simd.h"
