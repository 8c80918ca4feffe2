/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The two entries into kernel mode: the trampoline, for interrupts, and the gate, which the
 * host calls. Neither changes a vector register.
 */
#include <kiln/cpu_offsets.h>

#include "saved.h"

/*
 * Before returning to user mode, clear the part of the stack below the stack pointer that kernel
 * mode has used: compilers may have spilled keys or text there. Interrupts are off. Afterwards,
 * %rax is 0, and %rcx and %rdi are clobbered. While the stack is being cleared, the stack pointer
 * is lowered, because memory below the stack pointer must not be written.
 */
.macro clear_stack
	sub $KILN_STACK_CLEARED, %rsp
	mov %rsp, %rdi
	mov $(KILN_STACK_CLEARED / 8), %ecx
	xor %eax, %eax
	rep stosq
	add $KILN_STACK_CLEARED, %rsp
.endm

	.text
/*
 * The host's signal handler has disabled interrupts, pushed the frame that a CPU would push
 * (SS, RSP, RFLAGS, CS, RIP) below the red zone of the interrupted stack, and returned to
 * this address with all other registers unchanged.
 */
	.globl kiln_irq_trampoline
	.type kiln_irq_trampoline, @function
kiln_irq_trampoline:
	push_clobbered
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
	test %ebx, %ebx
	jne 3f
	clear_stack
3:	movl $0, %gs:KILN_CPU_IRQS_OFF
	cmpl $0, %gs:KILN_CPU_IRQ_PENDING
	jne 2f
	mov %rbp, %rsp
	pop %rbp
	pop %rbx
	pop_clobbered
	/*
	 * If the interrupted code is being single-stepped (TF, bit 8 of the saved RFLAGS), execute
	 * INT3, so that the host's handler performs the return. It has faster methods of stepping
	 * than the trap flag.
	 */
	testb $1, 17(%rsp)
	jnz 4f
	iretq
4:	int3
	.globl kiln_irq_return_trap
kiln_irq_return_trap:
2:	/* An interrupt is pending, unless the trampoline has just handled it: check again. */
	movl $1, %gs:KILN_CPU_IRQS_OFF
	cmpl $0, %gs:KILN_CPU_IRQ_PENDING
	jne 1b
	jmp 3b
	.size kiln_irq_trampoline, . - kiln_irq_trampoline

/*
 * u64 kiln_gate(u64 (*fn)(void *arg), void *arg): calls fn in kernel mode and returns its result.
 * The user's FPU state is in the registers on entry and on return. On return, the general-purpose
 * registers and the stack below contain nothing left over from fn except its result.
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
3:	clear_stack
	xor %edx, %edx
	xor %esi, %esi
	xor %r8d, %r8d
	xor %r9d, %r9d
	xor %r10d, %r10d
	xor %r11d, %r11d
	movl $0, %gs:KILN_CPU_KERNEL_MODE
	movl $0, %gs:KILN_CPU_IRQS_OFF
	cmpl $0, %gs:KILN_CPU_IRQ_PENDING
	jne 4f
	xor %edi, %edi
	mov %rbx, %rax
	pop %rbx
	ret
4:	/* The trampoline may just have handled the pending interrupt: check again. */
	movl $1, %gs:KILN_CPU_IRQS_OFF
	movl $1, %gs:KILN_CPU_KERNEL_MODE
	cmpl $0, %gs:KILN_CPU_IRQ_PENDING
	je 3b
	mov $1, %edi
	call irq_entry
	jmp 3b
	.size kiln_gate, . - kiln_gate
