/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Replaces kernel/include/kiln/bitops.h, because Linux has the same functions. */
#include <linux/bitops.h>
