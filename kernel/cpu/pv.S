/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Functions that a hosted tree calls for preemption and in place of privileged instructions. They
 * preserve the caller's registers.
 */
#include <kiln/cpu_offsets.h>

#include "saved.h"

	.macro function name
	.globl \name
	.type \name, @function
\name:
	.endm

	.macro call_c name
	push %rbp
	mov %rsp, %rbp
	push_clobbered
	and $-16, %rsp
	call \name
	lea -72(%rbp), %rsp
	pop_clobbered
	pop %rbp
	.endm

	.text
	function kiln_pv_save_fl
	cmpl $0, %gs:KILN_CPU_IRQS_OFF
	mov $0, %eax
	jne 1f
	mov $0x200, %eax
1:	ret
	.size kiln_pv_save_fl, . - kiln_pv_save_fl

	function kiln_pv_irq_disable
	movl $1, %gs:KILN_CPU_IRQS_OFF
	ret
	.size kiln_pv_irq_disable, . - kiln_pv_irq_disable

	function kiln_pv_irq_enable
	movl $0, %gs:KILN_CPU_IRQS_OFF
	cmpl $0, %gs:KILN_CPU_IRQ_PENDING
	jne 1f
	ret
1:	call_c local_irq_enable
	ret
	.size kiln_pv_irq_enable, . - kiln_pv_irq_enable

	function kiln_preempt_schedule_thunk
	call_c preempt_schedule
	ret
	.size kiln_preempt_schedule_thunk, . - kiln_preempt_schedule_thunk
