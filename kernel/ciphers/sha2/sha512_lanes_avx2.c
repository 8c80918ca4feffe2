/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SHA-512 with AVX2, 4 messages at a time. */
#include "../simd/vec_ymm.h"

#define WORD_BITS 64
#define MD_NAME(name) sha512_##name##_avx2

#include "sha2_lanes.h"
