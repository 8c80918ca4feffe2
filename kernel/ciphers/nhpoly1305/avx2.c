/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* NH on 256-bit vectors. */
#include "../simd/vec_ymm.h"

#define NH nh_avx2

#define v_put(sum, s0, s1, s2, s3)                                            \
	do {                                                                  \
		const vec_t s01 = v_add64(v_lo64(s0, s1), v_hi64(s0, s1));    \
		const vec_t s23 = v_add64(v_lo64(s2, s3), v_hi64(s2, s3));    \
									      \
		v_store(sum, v_add64(                                         \
			_mm256_permute2x128_si256(s01, s23, 0x20),            \
			_mm256_permute2x128_si256(s01, s23, 0x31)));          \
	} while (0)

/*
 * HALF() loads one unit into the lower half of a vector and zeros the upper half. HALF_SUM() adds a
 * key that is loaded the same way, so the upper half of the sum is zero.
 */
#define HALF(p) v_one(_mm_loadu_si128((const __m128i *)(p)))
#define HALF_SUM(m, k) v_add32(m, HALF(k))
#define REST(n)                                                               \
	if (n) {                                                              \
		const vec_t m = v_order(HALF(src));                           \
									      \
		PASSES(HALF_SUM, m)                                           \
		src += NH_UNIT;                                               \
	}

#include "nh_simd.h"
