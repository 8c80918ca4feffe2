// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-CCM with VAES on 512-bit vectors. */
#include "../simd/vec_zmm.h"

#define CCM(name) ccm_##name##_vaes_avx512
#define CCM_CTR aes_ctr_vaes_avx512

#include "ccm_simd.h"
