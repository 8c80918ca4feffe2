/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SHA-1 with AVX-512, 16 messages at a time. */
#include "../simd/vec_zmm.h"

#define MD_NAME(name) sha1_##name##_avx512

#include "sha1_lanes.h"
