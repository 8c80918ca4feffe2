// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * AES modes over the table-based AES, block by block: as slow, and as far from constant
 * time, as that is (aes/generic.c).
 */
#include "scalar.h"

MODES_SCALAR(generic, 1)
