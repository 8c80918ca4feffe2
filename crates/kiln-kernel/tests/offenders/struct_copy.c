/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Violates law 1 unless calls are renamed: compilers turn the copy of a structure into a call to
 * memcpy. The structure is large, because gcc copies smaller structures with string instructions.
 */

struct large {
	char bytes[1 << 16];
};

void copy(struct large *to, const struct large *from);

void copy(struct large *to, const struct large *from)
{
	*to = *from;
}
