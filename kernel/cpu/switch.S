/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Switches from one task's stack to another's. fpu_switch() takes care of the vector registers.
 */
	.text
	.globl cpu_switch
	.hidden cpu_switch
	.type cpu_switch, @function
cpu_switch:
	push %rbp
	push %rbx
	push %r12
	push %r13
	push %r14
	push %r15
	mov %rsp, (%rdi)
	mov %rsi, %rsp
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbx
	pop %rbp
	ret
	.size cpu_switch, . - cpu_switch

	.globl cpu_task_start
	.hidden cpu_task_start
	.type cpu_task_start, @function
cpu_task_start:
	xor %ebp, %ebp
	and $-16, %rsp
	call task_main
	ud2
	.size cpu_task_start, . - cpu_task_start
