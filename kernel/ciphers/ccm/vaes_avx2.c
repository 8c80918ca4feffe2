// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-CCM with VAES on 256-bit vectors. */
#include "../simd/vec_ymm.h"

#define CCM(name) ccm_##name##_vaes_avx2
#define CCM_CTR aes_ctr_vaes_avx2

#include "ccm_simd.h"
