/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Offends law 1 when not renamed: a structure copy, which compilers turn into a
 * call of memcpy. Large, as gcc copies smaller ones by string instructions.
 */

struct large {
	char bytes[1 << 16];
};

void copy(struct large *to, const struct large *from);

void copy(struct large *to, const struct large *from)
{
	*to = *from;
}
