/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Violates law 2 if compiled as a general object, because it uses vector registers. Violates law 3
 * if compiled as a SIMD object, because it does not check for an FPU section.
 */

double double_add(double a, double b);

double double_add(double a, double b)
{
	return a + b;
}
