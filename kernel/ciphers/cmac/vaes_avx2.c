// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-CMAC with AES-NI in VEX encodings: one block after the other has no use for wide vectors. */
#include "../simd/vec_ymm.h"

#define CMAC(name) cmac_##name##_vaes_avx2

#include "cmac_simd.h"
