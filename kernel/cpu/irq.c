// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Hardirq entry and exit. On exit, softirqs run, the user's FPU state is restored, and tasks may be
 * switched.
 */
#include <kiln/abi/cpu.h>
#include <kiln/context.h>
#include <kiln/cpu.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>

#include "cpu_internal.h"

void local_irq_disable(void)
{
	this_cpu_write(irqs_off, 1);
}

/* Interrupts that arrived while interrupts were off are delivered as a single one. */
void local_irq_enable(void)
{
	this_cpu_write(irqs_off, 0);
	while (unlikely(this_cpu_read(irq_pending))) {
		this_cpu_write(irqs_off, 1);
		if (this_cpu_read(irq_pending))
			irq_entry(false);
		this_cpu_write(irqs_off, 0);
	}
}

void irq_attach(void *data, unsigned int nr, irq_handler_t *softirq, irq_handler_t *hardirq)
{
	struct cpu *cpu = this_cpu();
	const bool off = local_irq_save();

	cpu->irq_data = data;
	cpu->softirq_handler[nr] = softirq;
	cpu->irq_handler = hardirq;
	local_irq_restore(off);
}

void irq_detach(void)
{
	this_cpu()->irq_handler = NULL;
	while (this_cpu_read(softirq_pending))
		do_softirq();
}

void irq_entry(u64 from_user)
{
	struct cpu *cpu = this_cpu();
	const u8 base = cpu->section_base;

	settle_count(cpu);
	cpu->irq_time = rdtsc();
	this_cpu_write(irq_pending, 0);
	enter_context(cpu, HARDIRQ_OFFSET);

	cpu->stats.irqs++;
	cpu->stats.irqs_user += from_user;
	cpu->stats.irqs_in_section += cpu->section_depth > base;
	cpu->irqs_seen++;
	if (unlikely(cpu->watchdog) && cpu->section_depth > base)
		watchdog_look(cpu);
	cpu->section_base = cpu->section_depth;
	if (unlikely(cpu->remote))
		wakes_of_others(cpu);
	if (unlikely(cpu->steal_limit))
		forgive_steal(cpu);
	if (cpu->irq_time >= cpu->next_tick && !cpu->stepped)
		sched_tick(cpu);
	if (cpu->irq_handler)
		cpu->irq_handler(cpu);

	leave_context(cpu, HARDIRQ_OFFSET);
	if (cpu->softirq_pending && !in_interrupt())
		do_softirq_irqs_off();
	cpu->section_base = base;

	if (from_user)
		fpu_user_restore();
	else if (cpu->preempt_full)
		preempt_schedule_irq();
}

void kiln_irq_self(void)
{
	this_cpu_write(irq_pending, 1);
	if (!this_cpu_read(irqs_off))
		local_irq_enable();
}
