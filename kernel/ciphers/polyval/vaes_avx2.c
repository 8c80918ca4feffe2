// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* GHASH and POLYVAL with VPCLMULQDQ, 256-bit vectors. */
#include "../simd/vec_ymm.h"

#define POLYVAL(name) polyval_##name##_vaes_avx2

#include "polyval_simd.h"
