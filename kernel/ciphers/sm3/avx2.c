/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SM3 with AVX2 and BMI2, for Haswell, Zen and later CPUs. */
#include "../simd/two_lanes.h"

#define MD_NAME(name) sm3_##name##_avx2

#define v_rol8(v) _mm256_shuffle_epi8(v, v_bytes(0x0e0d0c0f0a09080b, 0x0605040702010003))
#define v_rol(v, n) v_xor(_mm256_slli_epi32(v, n), _mm256_srli_epi32(v, 32 - (n)))
#define v_zero_32(p) _mm256_store_si256((__m256i *)(p), _mm256_setzero_si256())
#define v_zero_64(p) do { v_zero_32(p); v_zero_32((p) + 32); } while (0)

static __always_inline vec_t v_p1(vec_t x)
{
	const vec_t x15 = v_rol(x, 15);

	return v_xor3(x, x15, v_rol8(x15));
}

#include "sm3_simd.h"
