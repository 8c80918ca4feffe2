// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Privileged instructions. A tree built as a Xen paravirtual guest calls functions in pv_ops
 * instead of executing privileged instructions. glue.c makes pv_ops point to functions of
 * kernel/cpu.
 */
#include "service.h"

unsigned long SERVICE(pv_ops)[512];

__asm__(".pushsection .text\n"
	".globl svc_kiln_pv_refused\n"
	"svc_kiln_pv_refused:\n"
	"	call	pv_refused\n"
	".popsection\n");

void pv_refused(void);
void pv_refused(void)
{
	refused("pv_ops: a privileged instruction");
}
