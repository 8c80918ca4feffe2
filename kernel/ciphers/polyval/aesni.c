// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* GHASH and POLYVAL with PCLMULQDQ. */
#include "../simd/vec_xmm.h"

#define POLYVAL(name) polyval_##name##_aesni

#include "polyval_simd.h"
