/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Violates law 4: a variable is not used. */

int answer(void);

int answer(void)
{
	int unused;

	return 42;
}
