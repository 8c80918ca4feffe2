// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A stall detector for FPU sections: each interrupt checks how long the interrupted section, if
 * any, has been open.
 */
#include <kiln/cpu.h>

#include "cpu_internal.h"

void watchdog_look(struct cpu *cpu)
{
	const u64 since = cpu->section_start[cpu->section_depth - 1];
	const u64 time = cpu->irq_time - since;

	/* Untimed sections are short and need no check. Report each long section only once. */
	if (!since || time <= cpu->watchdog || since == cpu->watchdog_seen)
		return;
	cpu->watchdog_seen = since;
	cpu->stats.stalls++;
	if (time > cpu->stats.stall_max)
		cpu->stats.stall_max = time;
}
