// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-CMAC with AES-NI. */
#include "../simd/vec_xmm.h"

#define CMAC(name) cmac_##name##_aesni

#include "cmac_simd.h"
