// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * AES-CMAC with VEX-encoded AES-NI. The blocks of a CMAC depend on each other, so wider vectors
 * would not help.
 */
#include "../simd/vec_ymm.h"

#define CMAC(name) cmac_##name##_vaes_avx2

#include "cmac_simd.h"
