// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-GCM with VAES and VPCLMULQDQ on 512-bit vectors. */
#include "../simd/vec_zmm.h"

#define GCM(name) gcm_##name##_vaes_avx512

#include "gcm_simd.h"
