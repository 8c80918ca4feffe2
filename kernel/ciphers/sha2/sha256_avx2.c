/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SHA-256 with AVX2. */
#include "../simd/two_lanes.h"

#define MD_NAME(name) sha256_##name##_avx2

#define ROR(v, n) v_xor(_mm256_srli_epi32(v, n), _mm256_slli_epi32(v, 32 - (n)))
#define v_sigma0(v) v_xor3(ROR(v, 7), ROR(v, 18), _mm256_srli_epi32(v, 3))
/* Each 64-bit word holds the same 32-bit word twice, so a 64-bit shift rotates that word. */
#define v_sigma1(v)                                                           \
	v_xor3(_mm256_srli_epi64(v, 17), _mm256_srli_epi64(v, 19), _mm256_srli_epi32(v, 10))

#include "sha256_simd.h"
