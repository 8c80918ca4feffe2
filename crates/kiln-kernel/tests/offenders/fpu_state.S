/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Violates law 2 outside the directories that save and restore vector state;
 * the last instruction violates it anywhere.
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
