// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * AES modes with the table-based AES, block by block. Like that (aes/generic.c), they are slow and
 * not constant-time.
 */
#include "scalar.h"

MODES_SCALAR(generic, 1)
