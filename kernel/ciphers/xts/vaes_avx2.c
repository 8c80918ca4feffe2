/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* AES-XTS with VAES, 256-bit vectors. */
#include "../simd/vec_ymm.h"

#define XTS(name) xts_##name##_vaes_avx2

#include "xts_simd.h"
