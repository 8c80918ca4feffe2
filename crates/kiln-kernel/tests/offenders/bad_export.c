/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Violates law 5: exports two symbols without Kiln's prefix, in addition to two correct ones. */

#define EXPORT __attribute__((visibility("default")))

EXPORT int aes_leak(void);
EXPORT int kiln_fine(void);
int aes_hidden(void);

EXPORT int aes_leaked_data = 1;

EXPORT int aes_leak(void)
{
	return 1;
}

EXPORT int kiln_fine(void)
{
	return 2;
}

int aes_hidden(void)
{
	return 3;
}
