/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Vector operations that have the same names for every width. Included by vec_xmm.h, vec_ymm.h and
 * vec_zmm.h, which define
 *
 *	vec_t		a vector of VBLOCKS blocks of 16 bytes
 *	VBLOCKS		1, 2 or 4
 *	MAIN		vectors per iteration of the AES modes' main loop: 8 or 16
 *	V(op)		the intrinsic whose name ends in @op, such as add_epi32
 *	V_WHOLE(op)	an intrinsic on the whole vector, such as xor
 *	V_BLOCKS(op)	an intrinsic on each 16-byte block, such as aesenc
 *	v_all(x)	block x in every position
 *	v_one(x)	block x in the first position, zeros in the others
 *	v_pair(x, y)	blocks x and y in the first two positions, zeros in the others
 *	v_xor3(a, b, c)	a ^ b ^ c
 *	v_number()	0, 1, 2 ... in the lower halves of the blocks
 *	v_set64(hi, lo)	the block hi:lo in every position
 *	v_before(prev, v)	the last block of prev, then all blocks of v but the last
 *	v_first(v), v_sum(v)	the first block; the XOR of all blocks
 *	v_end()		VZEROUPPER, to be used before a function returns
 */
#ifndef KILN_SIMD_VEC_H
#define KILN_SIMD_VEC_H

#include <immintrin.h>

#include <kiln/types.h>

#define VBYTES (VBLOCKS * 16)

/* Unaligned loads and stores, constants, and bitwise operations. */
#define v_load(p) V_WHOLE(loadu)((const vec_t *)(p))
#define v_store(p, v) V_WHOLE(storeu)((vec_t *)(p), v)
#define v_low64(n) v_set64(0, n)
#define v_zero() V_WHOLE(setzero)()
#define v_xor(a, b) V_WHOLE(xor)(a, b)
#define v_and(a, b) V_WHOLE(and)(a, b)
#define v_or(a, b) V_WHOLE(or)(a, b)
/* Operations on 32-bit or 64-bit words. v_mul32() multiplies the lower halves of 64-bit words. */
#define v_all32(x) V(set1_epi32)((int)(x))
#define v_add32(a, b) V(add_epi32)(a, b)
#define v_add64(a, b) V(add_epi64)(a, b)
#define v_mul32(a, b) V(mul_epu32)(a, b)
#define v_sll(v, bits) V(slli_epi64)(v, bits)
#define v_srl(v, bits) V(srli_epi64)(v, bits)
#define v_lo32(a, b) V(unpacklo_epi32)(a, b)
#define v_hi32(a, b) V(unpackhi_epi32)(a, b)
#define v_lo64(a, b) V(unpacklo_epi64)(a, b)
#define v_hi64(a, b) V(unpackhi_epi64)(a, b)
/* Operations within each block: PSHUFB, PSHUFD, swapping the halves, and shifts by whole bytes. */
#define v_shuffle(v, pattern) V(shuffle_epi8)(v, pattern)
#define v_shuffle32(v, imm) V(shuffle_epi32)(v, imm)
#define v_swap(v) v_shuffle32(v, 0x4e)
#define v_bsll(v, bytes) V_BLOCKS(bslli)(v, bytes)
#define v_bsrl(v, bytes) V_BLOCKS(bsrli)(v, bytes)
/* One AES round, or one PCLMULQDQ, on every block. */
#define v_enc(v, k) V_BLOCKS(aesenc)(v, k)
#define v_enclast(v, k) V_BLOCKS(aesenclast)(v, k)
#define v_dec(v, k) V_BLOCKS(aesdec)(v, k)
#define v_declast(v, k) V_BLOCKS(aesdeclast)(v, k)
#define v_clmul(a, b, halves) V_BLOCKS(clmulepi64)(a, b, halves)

#endif
