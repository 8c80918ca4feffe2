/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Violates law 1 if built with the stack protector, which calls a libc function. */

void fill(char *p);
int first(void);

void fill(char *p)
{
	p[0] = 1;
}

int first(void)
{
	volatile char buf[64];

	fill((char *)buf);
	return buf[0];
}
