/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The decision whether a tag is right. */
#ifndef KILN_CIPHERS_VERDICT_H
#define KILN_CIPHERS_VERDICT_H

#include <kiln/types.h>

/*
 * Whether @differ, the bits in which two tags differ, has any bit set. The result is public, but
 * the expected tag is not: this is the only jump that depends on a secret. It is in assembly, so
 * that every compiler puts it here, and tools that search for such jumps can name it.
 */
static __always_inline bool tag_is_wrong(u64 differ)
{
	__asm__ goto("test %0, %0\n\tjnz %l[wrong]" : : "r"(differ) : "cc" : wrong);
	return false;
wrong:
	return true;
}

#endif
