/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* ChaCha20 on 512-bit vectors, with 32 registers and single-instruction rotations. */
#include "../simd/vec_zmm.h"
#include "../poly1305/ifma.h"

#define CHACHA(name) chacha_##name##_vaes_avx512
#define SETS 2

#define v_counts(n) _mm512_maskz_set1_epi32(0x1111, (int)(n))

/*
 * Use in-place operations and a fixed register for each word. Otherwise gcc keeps a third of the
 * two sets in memory and copies words (780 cycles instead of 700).
 */
#define V_VAR_x(i) register vec_t x##i __asm__("zmm" #i)
#define V_VAR_y(i) register vec_t y##i __asm__(Y_##i)
#define Y_0 "zmm16"
#define Y_1 "zmm17"
#define Y_2 "zmm18"
#define Y_3 "zmm19"
#define Y_4 "zmm20"
#define Y_5 "zmm21"
#define Y_6 "zmm22"
#define Y_7 "zmm23"
#define Y_8 "zmm24"
#define Y_9 "zmm25"
#define Y_10 "zmm26"
#define Y_11 "zmm27"
#define Y_12 "zmm28"
#define Y_13 "zmm29"
#define Y_14 "zmm30"
#define Y_15 "zmm31"

#define V_ADD(a, b) __asm__ volatile("vpaddd %1, %0, %0" : "+v"(a) : "v"(b));
#define V_XOR(a, b) __asm__ volatile("vpxord %1, %0, %0" : "+v"(a) : "v"(b));
#define V_ROL(a, n) __asm__ volatile("vprold %1, %0, %0" : "+v"(a) : "i"(n));

#define v_lanes(a, b, c, d)                                                   \
	do {                                                                  \
		const vec_t ab0 = _mm512_shuffle_i32x4(a, b, 0x44);           \
		const vec_t ab1 = _mm512_shuffle_i32x4(a, b, 0xee);           \
		const vec_t cd0 = _mm512_shuffle_i32x4(c, d, 0x44);           \
		const vec_t cd1 = _mm512_shuffle_i32x4(c, d, 0xee);           \
									      \
		a = _mm512_shuffle_i32x4(ab0, cd0, 0x88);                     \
		b = _mm512_shuffle_i32x4(ab0, cd0, 0xdd);                     \
		c = _mm512_shuffle_i32x4(ab1, cd1, 0x88);                     \
		d = _mm512_shuffle_i32x4(ab1, cd1, 0xdd);                     \
	} while (0)

/* XORs less than a vector of key stream into the text, with masked loads and stores. */
#define xor_bytes(dst, src, with, len)                                        \
	do {                                                                  \
		const __mmask64 mask = ~0ull >> (64 - (len));                 \
									      \
		_mm512_mask_storeu_epi8(dst, mask, v_xor(                     \
			_mm512_maskz_loadu_epi8(mask, src), v_load(with)));   \
	} while (0)

/*
 * Limits: rows are one chain of 20 * 12 dependent operations, which take one cycle each on Zen 4
 * and two on Zen 5; columns are four such chains. Zen 4 splits 512-bit operations, so a row of 512
 * bits (four blocks) takes 340 cycles and a row of 256 bits (two blocks) 297. Eight blocks take 490
 * cycles in two rows of 512 bits and 470 in columns of 256 bits (gcc 12).
 */
#define TIER_FEW
#define two_blocks chacha_ymm_two
#define eight_blocks chacha_ymm_eight

#define v_powers powers_zmm

#include "chacha_simd.h"
