// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-GCM over the table-based AES: as far from constant time as that is. */
#include "scalar.h"

GCM_SCALAR(generic)
