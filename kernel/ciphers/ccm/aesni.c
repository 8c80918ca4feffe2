// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-CCM with AES-NI. */
#include "../simd/vec_xmm.h"

#define CCM(name) ccm_##name##_aesni
#define CCM_CTR aes_ctr_aesni

#include "ccm_simd.h"
