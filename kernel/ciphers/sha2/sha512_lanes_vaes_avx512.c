/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SHA-512 of 8 messages at a time with AVX-512. */
#include "../simd/vec_zmm.h"

#define WORD_BITS 64
#define MD_NAME(name) sha512_##name##_avx512

#include "sha2_lanes.h"
