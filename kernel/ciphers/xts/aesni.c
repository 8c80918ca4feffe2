/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* AES-XTS with AES-NI. */
#include "../simd/vec_xmm.h"

#define XTS(name) xts_##name##_aesni

#include "xts_simd.h"
