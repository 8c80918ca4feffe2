/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* BLAKE2s on 128-bit vectors, SSE-encoded. */
#include <kiln/types.h>

#include "../simd/vec_xmm.h"
#include "../simd/rotate.h"

#define BLOCKS blake2s_blocks_aesni
#define MESSAGE
#define v_pick(a, b, c, d) _mm_set_epi32((int)get_le32(data + 4 * (d)),       \
	(int)get_le32(data + 4 * (c)), (int)get_le32(data + 4 * (b)),         \
	(int)get_le32(data + 4 * (a)))
#define v_ror(v, n) v_rol32(v, 32 - (n))

#include "simd.h"
