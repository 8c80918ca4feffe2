// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * AES modes with the table-based AES in aes/generic.c, block by block. They are slow and not
 * constant-time.
 */
#include "scalar.h"

MODES_SCALAR(generic, 1)
