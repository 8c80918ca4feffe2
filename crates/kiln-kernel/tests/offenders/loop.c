/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Violates law 2 if the compiler vectorises the loop, although the source uses only integers.
 */

void add_all(unsigned int *restrict to, const unsigned int *restrict from);

void add_all(unsigned int *restrict to, const unsigned int *restrict from)
{
	for (int i = 0; i < 1024; i++)
		to[i] += from[i];
}
