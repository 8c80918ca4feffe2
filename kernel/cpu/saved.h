/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Macros that save and restore the general-purpose registers that a C function may change. */

.macro push_clobbered
	push %rax
	push %rcx
	push %rdx
	push %rsi
	push %rdi
	push %r8
	push %r9
	push %r10
	push %r11
.endm

.macro pop_clobbered
	pop %r11
	pop %r10
	pop %r9
	pop %r8
	pop %rdi
	pop %rsi
	pop %rdx
	pop %rcx
	pop %rax
.endm
