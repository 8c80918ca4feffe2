/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Violates law 1: takes the address of a function that another module may define, so the compiler
 * uses the GOT.
 */

__attribute__((visibility("default"))) void elsewhere(void);
void (*address(void))(void);

void (*address(void))(void)
{
	return elsewhere;
}
