/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SM3 of 16 messages at a time with AVX-512. */
#include "../simd/vec_zmm.h"

#define MD_NAME(name) sm3_##name##_avx512

#include "sm3_lanes.h"
