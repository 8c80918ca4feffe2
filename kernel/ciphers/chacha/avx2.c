/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* ChaCha20 on 256-bit vectors. */
#include "../simd/vec_ymm.h"

#define CHACHA(name) chacha_##name##_avx2
#define SETS 1

#define v_counts(n) _mm256_blend_epi32(_mm256_setzero_si256(), v_all32(n), 0x11)

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

#define v_powers(key, len) poly1305_powers26(key, 4)

#include "chacha_simd.h"
