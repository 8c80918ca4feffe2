// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-GCM with VAES and VPCLMULQDQ on 256-bit vectors. */
#include "../simd/vec_ymm.h"

#define GCM(name) gcm_##name##_vaes_avx2

#include "gcm_simd.h"
