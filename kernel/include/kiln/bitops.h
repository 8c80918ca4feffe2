/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Word rotations. The count must be at least 1 and less than the number of bits in the word. */
#ifndef KILN_BITOPS_H
#define KILN_BITOPS_H

#include <kiln/types.h>

static __always_inline u32 rol32(u32 v, const int n)
{
	return v << n | v >> (32 - n);
}

static __always_inline u32 ror32(u32 v, const int n)
{
	return v >> n | v << (32 - n);
}

static __always_inline u64 ror64(u64 v, const int n)
{
	return v >> n | v << (64 - n);
}

#endif
