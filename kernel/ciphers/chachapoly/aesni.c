/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Short messages of ChaCha20-Poly1305 with SSE-encoded vectors. */
#include "../simd/vec_xmm.h"

#define SHORT(name) chachapoly_##name##_aesni
#define SETS 1
#define BEGUN 6
#define TWICE 0x35

#define v_counts(n) _mm_cvtsi32_si128((int)(n))
#define v_lanes(a, b, c, d) do { } while (0)
#define v_powers(key, len) do { } while (0)

#include "short.h"
