// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-CMAC with VEX-encoded AES-NI. vaes_avx2.c explains when wider vectors help. */
#include "../simd/vec_zmm.h"

#define CMAC(name) cmac_##name##_vaes_avx512

#include "cmac_simd.h"
