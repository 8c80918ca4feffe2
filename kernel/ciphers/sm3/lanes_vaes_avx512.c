/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SM3 with AVX-512, 16 messages at a time. */
#include "../simd/vec_zmm.h"

#define MD_NAME(name) sm3_##name##_avx512

#include "sm3_lanes.h"
