/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SM3 with AVX2, 8 messages at a time. */
#include "../simd/vec_ymm.h"

#define MD_NAME(name) sm3_##name##_avx2

#include "sm3_lanes.h"
