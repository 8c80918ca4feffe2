/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One-block vectors, with SSE encodings only. They work on all CPUs since Westmere and under
 * operating systems that save only the xmm registers. vec.h explains the operations.
 */
#ifndef KILN_SIMD_VEC_XMM_H
#define KILN_SIMD_VEC_XMM_H

#include "vec.h"

#define VBLOCKS 1
#define MAIN 8

typedef __m128i vec_t;

#define V(op) _mm_##op
#define V_WHOLE(op) _mm_##op##_si128
#define V_BLOCKS(op) _mm_##op##_si128

#define v_all(x) (x)
#define v_one(x) (x)
#define v_xor3(a, b, c) v_xor(v_xor(a, b), c)
#define v_number() v_zero()
#define v_set64(hi, lo) _mm_set_epi64x(hi, lo)
#define v_before(prev, v) (prev)
#define v_sum(v) (v)
#define v_first(v) (v)
#define v_end() do { } while (0)

#endif
