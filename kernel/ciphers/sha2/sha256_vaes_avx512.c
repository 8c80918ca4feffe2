/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SHA-256 with AVX-512, where rotations and three-term XORs are single instructions. */
#include "../simd/two_lanes.h"

#define MD_NAME(name) sha256_##name##_avx512

#define v_sigma0(v)                                                           \
	v_xor3(_mm256_ror_epi32(v, 7), _mm256_ror_epi32(v, 18), _mm256_srli_epi32(v, 3))
#define v_sigma1(v)                                                           \
	v_xor3(_mm256_ror_epi32(v, 17), _mm256_ror_epi32(v, 19), _mm256_srli_epi32(v, 10))

#include "sha256_simd.h"
