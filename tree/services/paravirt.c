// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Privileged instructions. A tree built for Xen's paravirtual guests calls functions in pv_ops
 * instead of executing such instructions. glue.c points pv_ops to functions of kernel/cpu.
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
