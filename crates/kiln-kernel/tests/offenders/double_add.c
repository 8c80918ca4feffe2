/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Violates law 2 if compiled as a general object, law 3 if compiled as a SIMD
 * object.
 */

double double_add(double a, double b);

double double_add(double a, double b)
{
	return a + b;
}
