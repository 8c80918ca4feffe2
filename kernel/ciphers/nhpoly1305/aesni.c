/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* NH on 128-bit vectors, using only SSE encodings. */
#include "../simd/vec_xmm.h"

#define NH nh_aesni

#define v_put(sum, s0, s1, s2, s3)                                            \
	do {                                                                  \
		v_store(sum, v_add64(v_lo64(s0, s1), v_hi64(s0, s1)));        \
		v_store((u8 *)(sum) + 16, v_add64(v_lo64(s2, s3), v_hi64(s2, s3))); \
	} while (0)

#define REST(n)

#include "nh_simd.h"
