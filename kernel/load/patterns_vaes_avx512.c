// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Patterns in thirty-two 512-bit registers and eight mask registers. */
#define PATTERNS(name) name##_zmm
#define VECTOR "zmm"
#define MOVE "vmovdqu64"
#define ONES(n) "vpternlogd $0xff, %%zmm" #n ", %%zmm" #n ", %%zmm" #n "\n\t"
#define ALL(F) R_0_15(F) R_16_31(F)
#define MASKS(F) R_0_7(F)
#define CLOBBERS XMM_0_15, XMM_16_31, "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#define END "vzeroupper\n\t"

#include "patterns_simd.h"
