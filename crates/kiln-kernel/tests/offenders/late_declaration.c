/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Violates law 4: a declaration follows a statement. */

int answer(int n);

int answer(int n)
{
	n++;
	int late = n;

	return late;
}
