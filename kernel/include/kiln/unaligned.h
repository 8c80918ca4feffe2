/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Loads and stores of little- and big-endian words at any address. */
#ifndef KILN_UNALIGNED_H
#define KILN_UNALIGNED_H

#include <kiln/types.h>

static __always_inline u32 get_le32(const void *p)
{
	u32 v;

	__builtin_memcpy(&v, p, sizeof(v));
	return v;
}

static __always_inline u64 get_le64(const void *p)
{
	u64 v;

	__builtin_memcpy(&v, p, sizeof(v));
	return v;
}

static __always_inline void put_le32(u32 v, void *p)
{
	__builtin_memcpy(p, &v, sizeof(v));
}

static __always_inline void put_le64(u64 v, void *p)
{
	__builtin_memcpy(p, &v, sizeof(v));
}

#endif
