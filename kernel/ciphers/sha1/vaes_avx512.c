/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SHA-1 of 16 messages at a time with AVX-512. */
#include "../simd/vec_zmm.h"

#define MD_NAME(name) sha1_##name##_avx512

#include "sha1_lanes.h"
