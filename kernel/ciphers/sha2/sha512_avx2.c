/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SHA-512 with AVX2 and BMI2, for Haswell, Zen and later CPUs. */
#include "../simd/two_lanes.h"

#define MD_NAME(name) sha512_##name##_avx2

#define v_ror(v, n) v_xor(_mm256_srli_epi64(v, n), _mm256_slli_epi64(v, 64 - (n)))
#define v_ror8(v)                                                             \
	_mm256_shuffle_epi8(v, v_bytes(0x080f0e0d0c0b0a09, 0x0007060504030201))

static __always_inline vec_t v_sigma0(vec_t v)
{
	return v_xor3(_mm256_srli_epi64(v, 7), v_ror8(v), v_ror(v, 1));
}

static __always_inline vec_t v_sigma1(vec_t v)
{
	return v_xor3(_mm256_srli_epi64(v, 6), v_ror(v, 61), v_ror(v, 19));
}

#include "sha512_simd.h"
