/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* ChaCha20 on 128-bit vectors, SSE-encoded. */
#include "../simd/vec_xmm.h"

#define CHACHA(name) chacha_##name##_aesni
#define SETS 1

#define v_counts(n) _mm_cvtsi32_si128((int)(n))

/* Each vector holds one row, a quarter of a block, so lanes need not be reordered. */
#define v_lanes(a, b, c, d) do { } while (0)

#define v_powers(key, len) poly1305_powers26(key, 2)

#include "chacha_simd.h"
