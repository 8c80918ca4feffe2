/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-512 with AVX2 and BMI2: Haswell, Zen and later.
 */
#include <immintrin.h>

#include <kiln/types.h>

#define SHA512(name) sha512_##name##_avx2

typedef __m256i vec_t;

#define v_load(p) _mm_loadu_si128((const __m128i *)(p))
#define v_load_lanes(p, stride)                                               \
	_mm256_inserti128_si256(_mm256_castsi128_si256(v_load(p)),            \
				v_load((p) + (stride)), 1)
#define v_key(p) _mm256_broadcastsi128_si256(v_load(p))
#define v_zero() _mm256_setzero_si256()
#define v_bytes(hi, lo) _mm256_broadcastsi128_si256(_mm_set_epi64x(hi, lo))
#define v_swap(v) _mm256_shuffle_epi8(v, v_bytes(0x08090a0b0c0d0e0f, 0x0001020304050607))
#define v_add(a, b) _mm256_add_epi64(a, b)
#define v_next(hi, lo) _mm256_alignr_epi8(hi, lo, 8)
#define v_xor(a, b) _mm256_xor_si256(a, b)
#define v_ror(v, n) v_xor(_mm256_srli_epi64(v, n), _mm256_slli_epi64(v, 64 - (n)))
#define v_ror8(v)                                                             \
	_mm256_shuffle_epi8(v, v_bytes(0x080f0e0d0c0b0a09, 0x0007060504030201))
#define v_xor3(a, b, c) v_xor(v_xor(a, b), c)
#define v_end() _mm256_zeroupper()

static inline __attribute__((always_inline)) vec_t v_sigma0(vec_t v)
{
	return v_xor3(_mm256_srli_epi64(v, 7), v_ror8(v), v_ror(v, 1));
}

static inline __attribute__((always_inline)) vec_t v_sigma1(vec_t v)
{
	return v_xor3(_mm256_srli_epi64(v, 6), v_ror(v, 61), v_ror(v, 19));
}

#include "sha512_simd.h"
