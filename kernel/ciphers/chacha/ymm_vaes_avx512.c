/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Two or eight blocks of ChaCha20 on 256-bit vectors with AVX-512's rotations and 32 registers. */
#include "../simd/vec_ymm.h"

#define SETS 1

#define v_counts(n) _mm256_maskz_set1_epi32(0x11, (int)(n))

#define V_VAR_x(i) vec_t x##i
#define V_ADD(a, b) a = v_add32(a, b);
#define V_XOR(a, b) a = v_xor(a, b);
#define V_ROL(a, n) a = _mm256_rol_epi32(a, n);

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

#define v_powers(mac, hashed) do { } while (0)

#include "chacha_blocks.h"

void chacha_ymm_two(const struct chacha_key *key, const u8 *iv, u32 more, u8 *dst)
{
	assert_fpu_section();
	rows_1(key, input_iv(iv), more, dst, NULL, NULL, 0);
}

void chacha_ymm_eight(const struct chacha_key *key, const u8 *iv, u32 more, u8 *dst)
{
	assert_fpu_section();
	columns_1(key, input_iv(iv), more, dst, NULL, NULL, 0);
}
