/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SHA-512 with AVX-512, 8 messages at a time. */
#include "../simd/vec_zmm.h"

#define WORD_BITS 64
#define MD_NAME(name) sha512_##name##_avx512

#include "sha2_lanes.h"
