/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Offends law 2 as a general object, law 3 as a SIMD one. */

double double_add(double a, double b);

double double_add(double a, double b)
{
	return a + b;
}
