// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Privileged instructions. A tree built for Xen's paravirtual guests calls through
 * pv_ops instead of executing them; glue.c puts these addresses there. They may
 * change no register but the one they answer in.
 */
#include "service.h"

unsigned long SERVICE(pv_ops)[512];

__asm__(".pushsection .text\n"
	".globl svc_kiln_pv_save_fl, svc_kiln_pv_irq_disable\n"
	".globl svc_kiln_pv_irq_enable, svc_kiln_pv_refused\n"
	"svc_kiln_pv_save_fl:\n"
	"	cmpl	$0, %gs:72\n"
	"	mov	$0, %eax\n"
	"	jne	1f\n"
	"	mov	$0x200, %eax\n"
	"1:	ret\n"
	"svc_kiln_pv_irq_disable:\n"
	"	movl	$1, %gs:72\n"
	"	ret\n"
	"svc_kiln_pv_irq_enable:\n"
	"	movl	$0, %gs:72\n"
	"	ret\n"
	"svc_kiln_pv_refused:\n"
	"	call	pv_refused\n"
	".popsection\n");

_Static_assert(CPU_IRQS_OFF == 72, "the assembly above knows it by number");

void pv_refused(void);
void pv_refused(void)
{
	refused("pv_ops: a privileged instruction");
}
