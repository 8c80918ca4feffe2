/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-512 with AVX-512: rotations and sums of three terms by one instruction each shorten
 * the schedule's chain to a half. Two lanes are enough for it.
 */
#include <immintrin.h>

#include <kiln/types.h>

#define SHA512(name) sha512_##name##_avx512

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
#define v_xor3(a, b, c) _mm256_ternarylogic_epi64(a, b, c, 0x96)
#define v_sigma0(v)                                                           \
	v_xor3(_mm256_srli_epi64(v, 7), _mm256_ror_epi64(v, 8), _mm256_ror_epi64(v, 1))
#define v_sigma1(v)                                                           \
	v_xor3(_mm256_srli_epi64(v, 6), _mm256_ror_epi64(v, 61), _mm256_ror_epi64(v, 19))
#define v_end() _mm256_zeroupper()

#include "sha512_simd.h"
