// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-GCM with the table-based AES, which is not constant-time. */
#include "scalar.h"

GCM_SCALAR(generic)
