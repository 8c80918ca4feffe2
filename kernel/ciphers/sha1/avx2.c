/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SHA-1 with AVX2, 8 messages at a time. */
#include "../simd/vec_ymm.h"

#define MD_NAME(name) sha1_##name##_avx2

#include "sha1_lanes.h"
