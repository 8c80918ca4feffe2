// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-XTS with the bit-sliced AES, in constant time without vector registers. */
#include "xts_scalar.h"

XTS_SCALAR(fixed_time, aes_scalar_fixed_time, 32)
