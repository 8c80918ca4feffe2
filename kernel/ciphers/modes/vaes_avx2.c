// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES modes with VAES on 256-bit vectors. */
#include "../simd/vec_ymm.h"

#define MODES(name) aes_##name##_vaes_avx2

#include "modes_simd.h"
