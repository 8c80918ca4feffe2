/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Single-steps code with the trap flag. The host's trap handler can deliver interrupts between the
 * instructions (struct kiln_audit).
 */
#ifndef KILN_STEP_H
#define KILN_STEP_H

#include <linux/compiler.h>
#include <linux/types.h>

static __always_inline void kiln_set_trap_flag(const bool on)
{
	if (on)
		asm volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
	else
		asm volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

#endif
