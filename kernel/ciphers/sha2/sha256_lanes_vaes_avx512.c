/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* SHA-256 with AVX-512, 16 messages at a time. */
#include "../simd/vec_zmm.h"

#define WORD_BITS 32
#define MD_NAME(name) sha256_##name##_avx512

#include "sha2_lanes.h"
