// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * AES-CMAC with VEX-encoded AES-NI. The blocks of a CMAC depend on each other, so wider vectors
 * help only with several messages at a time (cmac_lanes.h).
 */
#include "../simd/vec_ymm.h"

#define CMAC(name) cmac_##name##_vaes_avx2

#include "cmac_simd.h"
