/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* In place of kernel/include/kiln/bitops.h: Linux has the same functions. */
#include <linux/bitops.h>
