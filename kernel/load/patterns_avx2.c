// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Patterns in sixteen 256-bit registers. */
#define PATTERNS(name) name##_ymm
#define VECTOR "ymm"
#define MOVE "vmovdqu"
#define ONES(n) "vpcmpeqd %%ymm" #n ", %%ymm" #n ", %%ymm" #n "\n\t"
#define ALL(F) R_0_15(F)
#define MASKS(F)
#define CLOBBERS XMM_0_15
#define END "vzeroupper\n\t"

#include "patterns_simd.h"
