// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Patterns in sixteen 128-bit registers. */
#define PATTERNS(name) name##_xmm
#define VECTOR "xmm"
#define MOVE "movdqu"
#define ONES(n) "pcmpeqd %%xmm" #n ", %%xmm" #n "\n\t"
#define ALL(F) R_0_15(F)
#define MASKS(F)
#define CLOBBERS XMM_0_15
#define END ""

#include "patterns_simd.h"
