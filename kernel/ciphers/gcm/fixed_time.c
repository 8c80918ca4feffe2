// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-GCM with the bit-sliced AES, in constant time. */
#include "scalar.h"

GCM_SCALAR(fixed_time)
