/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Violates law 4: a global function has no prototype. */

int answer(void)
{
	return 42;
}
