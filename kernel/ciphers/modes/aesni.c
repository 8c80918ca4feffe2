// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES modes with AES-NI. */
#include "../simd/vec_xmm.h"

#define MODES(name) aes_##name##_aesni

#include "modes_simd.h"
