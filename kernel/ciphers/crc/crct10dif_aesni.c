/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* CRC-16/T10-DIF with PCLMULQDQ, using only SSE encodings. */
#include "../simd/vec_xmm.h"

#define BY_1 MOVE_16
#define BY_2 MOVE_32
#define BY_3 MOVE_48
#define BY_4 MOVE_64
#define sum_last(v) (v)

#include "crct10dif_simd.h"

static __always_inline vec_t put_crc(u32 crc, size_t n)
{
	return put_crc16(crc, n);
}

static __always_inline vec_t load_first(const u8 *p, size_t n)
{
	return keep_first(LOAD(p), n);
}

CRC_ENTRIES(crct10dif, pclmul, add_bytes)
