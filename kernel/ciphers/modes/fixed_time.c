// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES modes with the bit-sliced AES, in constant time without vector registers. */
#include "scalar.h"

MODES_SCALAR(fixed_time, 32)
