// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Functions that kernel/ normally takes from kernel/lib/string.c. In a cell, libc provides memcpy
 * and related functions.
 */
#include <string.h>

void *kiln_memcpy(void *dst, const void *src, size_t n);
void *kiln_memmove(void *dst, const void *src, size_t n);
void *kiln_memset(void *dst, int byte, size_t n);
int kiln_memcmp(const void *a, const void *b, size_t n);
void kiln_wipe_below(void);

void *kiln_memcpy(void *dst, const void *src, size_t n)
{
	return memcpy(dst, src, n);
}

void *kiln_memmove(void *dst, const void *src, size_t n)
{
	return memmove(dst, src, n);
}

void *kiln_memset(void *dst, int byte, size_t n)
{
	return memset(dst, byte, n);
}

int kiln_memcmp(const void *a, const void *b, size_t n)
{
	return memcmp(a, b, n);
}

/*
 * setkey calls this function last, to wipe the stack. This version does nothing, because keys are
 * random and setting a key is not timed.
 */
void kiln_wipe_below(void)
{
}
