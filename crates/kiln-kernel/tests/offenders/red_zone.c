/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Violates law 2 if built with a red zone: a leaf function keeps its local array there. */

int leaf(int i);

int leaf(int i)
{
	volatile int a[4];

	a[0] = i;
	a[1] = i + 1;
	return a[i & 1];
}
