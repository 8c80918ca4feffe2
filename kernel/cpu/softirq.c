// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Softirqs are raised by hardirqs. They run at the end of a hardirq or in the outermost
 * local_bh_enable(). If there are too many of them, ksoftirqd runs the rest.
 */
#include <kiln/context.h>
#include <kiln/cpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>

#include "cpu_internal.h"

/* Linux's limits for one run. ksoftirqd runs the softirqs that remain. */
enum { MAX_SOFTIRQ_US = 2000, MAX_SOFTIRQ_RESTART = 10 };

void raise_softirq(unsigned int nr)
{
	struct cpu *cpu = this_cpu();

	if (in_hardirq() && in_serving_softirq())
		cpu->stats.softirqs_behind++;
	if (!cpu->softirq_pending)
		cpu->raise_time = in_hardirq() ? cpu->irq_time : rdtsc();
	this_cpu_op("orw", "r", (u16)(1u << nr), softirq_pending);
	if (!in_interrupt() && cpu->ksoftirqd)
		wake_up(cpu->ksoftirqd);
}

void do_softirq_irqs_off(void)
{
	struct cpu *cpu = this_cpu();
	const u64 end = cpu->stepped ? ~0ull : rdtsc() + MAX_SOFTIRQ_US * cpu->ticks_per_us;
	int restart = MAX_SOFTIRQ_RESTART;

	enter_context(cpu, SOFTIRQ_OFFSET);
	do {
		u32 pending = cpu->softirq_pending;
		const u64 raised = cpu->raise_time;

		cpu->softirq_pending = 0;
		local_irq_enable();
		while (pending) {
			const unsigned int nr = __builtin_ctz(pending);

			pending &= pending - 1;
			histogram_add(&cpu->softirq_latency, rdtsc() - raised, 1);
			cpu->stats.softirqs++;
			if (cpu->softirq_handler[nr])
				cpu->softirq_handler[nr](cpu);
		}
		local_irq_disable();
	} while (cpu->softirq_pending && rdtsc() < end && !need_resched() &&
		 --restart);
	if (cpu->softirq_pending && cpu->ksoftirqd) {
		cpu->stats.softirqs_deferred++;
		wake_up(cpu->ksoftirqd);
	}
	leave_context(cpu, SOFTIRQ_OFFSET);
}

void do_softirq(void)
{
	if (in_interrupt() || irqs_disabled())
		return;
	local_irq_disable();
	if (this_cpu_read(softirq_pending))
		do_softirq_irqs_off();
	local_irq_enable();
}

void local_bh_disable(void)
{
	preempt_count_add(SOFTIRQ_DISABLE_OFFSET);
}

void local_bh_enable(void)
{
	bh_enable(SOFTIRQ_DISABLE_OFFSET);
}

void bh_enable(u32 count)
{
	WARN_ON(in_hardirq());
	/* Preemption stays off until the softirqs are done. */
	preempt_count_sub(count - PREEMPT_OFFSET);
	if (unlikely(this_cpu_read(softirq_pending)) && !in_interrupt())
		do_softirq();
	preempt_enable();
}

static void ksoftirqd(void *arg __maybe_unused)
{
	for (;;) {
		local_irq_disable();
		if (this_cpu_read(softirq_pending)) {
			do_softirq_irqs_off();
			local_irq_enable();
			cond_resched();
		} else {
			current->state = TASK_SLEEPING;
			schedule();
			local_irq_enable();
		}
	}
}

void ksoftirqd_start(void)
{
	this_cpu_write(ksoftirqd, kthread_run(ksoftirqd, NULL, "ksoftirqd"));
}
