/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Violates law 1 when built with the stack protector. */

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
