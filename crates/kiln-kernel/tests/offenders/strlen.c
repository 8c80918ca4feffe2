/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Violates law 1: calls a libc function. */

__SIZE_TYPE__ strlen(const char *s);
int twice(const char *s);

int twice(const char *s)
{
	return 2 * (int)strlen(s);
}
