// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES modes with VAES on 512-bit vectors. */
#include "../simd/vec_zmm.h"

#define MODES(name) aes_##name##_vaes_avx512

#include "modes_simd.h"
