/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The two ways in: the trampoline that an interrupt is diverted to, and the gate
 * through which the host enters kernel mode. Neither touches a vector register.
 */
#include <kiln/cpu_offsets.h>

	.text
/*
 * The host's signal handler has turned interrupts off, pushed what the CPU would push
 * (SS, RSP, RFLAGS, CS, RIP) below the red zone of the interrupted stack, and continued
 * here, on that stack, with every register as it was.
 */
	.globl kiln_irq_trampoline
	.type kiln_irq_trampoline, @function
kiln_irq_trampoline:
	push %rax
	push %rcx
	push %rdx
	push %rsi
	push %rdi
	push %r8
	push %r9
	push %r10
	push %r11
	push %rbx
	push %rbp
	cld
	mov %rsp, %rbp
	and $-16, %rsp
	mov %gs:KILN_CPU_KERNEL_MODE, %ebx
1:	movl $1, %gs:KILN_CPU_KERNEL_MODE
	xor %edi, %edi
	test %ebx, %ebx
	sete %dil
	call irq_entry
	mov %ebx, %gs:KILN_CPU_KERNEL_MODE
3:	movl $0, %gs:KILN_CPU_IRQS_OFF
	cmpl $0, %gs:KILN_CPU_IRQ_PENDING
	jne 2f
	mov %rbp, %rsp
	pop %rbp
	pop %rbx
	pop %r11
	pop %r10
	pop %r9
	pop %r8
	pop %rdi
	pop %rsi
	pop %rdx
	pop %rcx
	pop %rax
	/* If the host single-steps, its next trap is after the interrupted instruction. */
	iretq
2:	/* One came while they were off, unless another has served it since. */
	movl $1, %gs:KILN_CPU_IRQS_OFF
	cmpl $0, %gs:KILN_CPU_IRQ_PENDING
	jne 1b
	jmp 3b
	.size kiln_irq_trampoline, . - kiln_irq_trampoline

/*
 * u64 kiln_gate(u64 (*fn)(void *arg), void *arg): run fn in kernel mode. The user's
 * FPU state is live on entry and is live again on return.
 */
	.globl kiln_gate
	.type kiln_gate, @function
kiln_gate:
	push %rbx
	mov %rdi, %rax
	mov %rsi, %rdi
	movl $1, %gs:KILN_CPU_KERNEL_MODE
	call *%rax
	mov %rax, %rbx
	call gate_exit
3:	movl $0, %gs:KILN_CPU_KERNEL_MODE
	movl $0, %gs:KILN_CPU_IRQS_OFF
	cmpl $0, %gs:KILN_CPU_IRQ_PENDING
	jne 4f
	mov %rbx, %rax
	pop %rbx
	ret
4:	movl $1, %gs:KILN_CPU_IRQS_OFF
	movl $1, %gs:KILN_CPU_KERNEL_MODE
	mov $1, %edi
	call irq_entry
	jmp 3b
	.size kiln_gate, . - kiln_gate
