// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What a kernel's stall detectors would report, at the scale of sections: an interrupt finds
 * that the section it came into has been keeping others out for too long.
 */
#include <kiln/cpu.h>

#include "cpu_internal.h"

void watchdog_look(struct cpu *cpu)
{
	const u64 since = cpu->section_start[cpu->section_depth - 1];
	const u64 time = cpu->irq_time - since;

	/* Those that the clock leaves out are short. Each is reported once. */
	if (!since || time <= cpu->watchdog || since == cpu->watchdog_seen)
		return;
	cpu->watchdog_seen = since;
	cpu->stats.stalls++;
	if (time > cpu->stats.stall_max)
		cpu->stats.stall_max = time;
}
