// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-CMAC with VEX-encoded AES-NI. For wider vectors see vaes_avx2.c. */
#include "../simd/vec_zmm.h"

#define CMAC(name) cmac_##name##_vaes_avx512

#include "cmac_simd.h"
