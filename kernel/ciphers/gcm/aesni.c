// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-GCM with AES-NI and PCLMULQDQ. */
#include "../simd/vec_xmm.h"

#define GCM(name) gcm_##name##_aesni

#include "gcm_simd.h"
