/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-512 with AVX-512, where rotations and three-term XORs are single instructions. This halves
 * the dependency chain of the message schedule, so two lanes are enough.
 */
#include "../simd/two_lanes.h"

#define MD_NAME(name) sha512_##name##_avx512

#define v_sigma0(v)                                                           \
	v_xor3(_mm256_srli_epi64(v, 7), _mm256_ror_epi64(v, 8), _mm256_ror_epi64(v, 1))
#define v_sigma1(v)                                                           \
	v_xor3(_mm256_srli_epi64(v, 6), _mm256_ror_epi64(v, 61), _mm256_ror_epi64(v, 19))

#include "sha512_simd.h"
