/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Whether a tag is right, told to who asked. */
#ifndef KILN_CIPHERS_VERDICT_H
#define KILN_CIPHERS_VERDICT_H

#include <kiln/types.h>

/*
 * Whether the bits in which two tags differ are any. The answer is public, the tag that was
 * expected is not: this is the one jump there is on what depends on a secret. It is written
 * out, so that it is here under every compiler, and whoever looks for such jumps can name it.
 */
static __always_inline bool tag_is_wrong(u64 differ)
{
	__asm__ goto("test %0, %0\n\tjnz %l[wrong]" : : "r"(differ) : "cc" : wrong);
	return false;
wrong:
	return true;
}

#endif
