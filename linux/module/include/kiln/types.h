/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Replaces kernel/include/kiln/types.h with Linux's own definitions. */
#ifndef KILN_TYPES_H
#define KILN_TYPES_H

#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/stddef.h>
#include <linux/types.h>

#define KILN_EXPORT

#ifndef ARRAY_SIZE
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#endif

#endif
