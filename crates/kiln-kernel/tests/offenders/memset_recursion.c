/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Violates law 1: kiln_memset() calls memset, which the build renames to kiln_memset, so the
 * function never returns.
 */

void *kiln_memset(void *dst, int byte, __SIZE_TYPE__ n);

void *kiln_memset(void *dst, int byte, __SIZE_TYPE__ n)
{
	__builtin_memset(dst, byte, n);
	return dst;
}
