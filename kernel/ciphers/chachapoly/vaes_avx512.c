/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Short messages of ChaCha20-Poly1305 with AVX-512's rotations. */
#include "../simd/vec_xmm.h"

#define SHORT(name) chachapoly_##name##_vaes_avx512
#define SETS 1
#define BEGUN 7
#define TWICE 0x15

#define v_counts(n) _mm_cvtsi32_si128((int)(n))
#define v_lanes(a, b, c, d) do { } while (0)
#define v_powers(key, len) do { } while (0)

#define V_VAR_x(i) vec_t x##i
#define V_ADD(a, b) a = v_add32(a, b);
#define V_XOR(a, b) a = v_xor(a, b);
#define V_ROL(a, n) a = _mm_rol_epi32(a, n);

#include "short.h"
