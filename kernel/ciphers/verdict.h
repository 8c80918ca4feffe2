/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Decides whether a tag is valid. */
#ifndef KILN_CIPHERS_VERDICT_H
#define KILN_CIPHERS_VERDICT_H

#include <kiln/types.h>

/*
 * Returns whether @differ, the XOR of two tags, has any bit set. The result is public, but the
 * expected tag is secret, so this function's jump is the only one in the ciphers that depends on a
 * secret. It is written in assembly so that every compiler emits the jump here, where tools that
 * search for secret-dependent jumps can exempt it by name.
 */
static __always_inline bool tag_is_wrong(u64 differ)
{
	__asm__ goto("test %0, %0\n\tjnz %l[wrong]" : : "r"(differ) : "cc" : wrong);
	return false;
wrong:
	return true;
}

#endif
