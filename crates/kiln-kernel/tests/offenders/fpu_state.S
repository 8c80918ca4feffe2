/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * These instructions violate law 2, except in the directories that save and restore vector state.
 * The last instruction violates law 2 in any directory.
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
