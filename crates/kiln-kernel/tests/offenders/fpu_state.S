/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Violates law 2: only the code in fpu/ and cpu/ may save and restore vector state, and vzeroupper
 * is not allowed in any directory.
 */

	.text
	.globl	kiln_fpu_state
	.type	kiln_fpu_state, @function
kiln_fpu_state:
	fxsave	(%rdi)
	fxrstor64 (%rdi)
	xsavec64 (%rdi)
	xrstor	(%rdi)
	ldmxcsr	(%rdi)
	fninit
	vzeroupper
	ret
	.size	kiln_fpu_state, . - kiln_fpu_state
