// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-GCM, GHASH and POLYVAL with AES-NI and PCLMULQDQ. */
#include "../simd/vec_xmm.h"

#define GCM(name) gcm_##name##_aesni
#define POLYVAL(name) polyval_##name##_aesni

#include "gcm_simd.h"
