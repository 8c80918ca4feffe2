// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* GHASH and POLYVAL with VPCLMULQDQ, 512-bit vectors. */
#include "../simd/vec_zmm.h"

#define POLYVAL(name) polyval_##name##_vaes_avx512

#include "polyval_simd.h"
