// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Work for later, on this CPU, in a kworker: in order, one item at a time.
 */
#include <kiln/cpu.h>
#include <kiln/kiln.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>

#include "cpu_internal.h"

bool queue_work(struct work *work)
{
	struct cpu *cpu = this_cpu();
	const bool off = this_cpu_read(irqs_off);
	bool added = false;

	local_irq_disable();
	if (!work->queued) {
		work->queued = true;
		work->next = NULL;
		if (cpu->work_tail)
			cpu->work_tail->next = work;
		else
			cpu->work_head = work;
		cpu->work_tail = work;
		wake_up(cpu->kworker);
		added = true;
	}
	if (!off)
		local_irq_enable();
	return added;
}

static void kworker(void *arg)
{
	struct cpu *cpu = this_cpu();

	(void)arg;
	for (;;) {
		struct work *work;

		local_irq_disable();
		work = cpu->work_head;
		if (!work) {
			current->state = TASK_SLEEPING;
			schedule();
			local_irq_enable();
			continue;
		}
		cpu->work_head = work->next;
		if (!cpu->work_head)
			cpu->work_tail = NULL;
		work->queued = false;
		local_irq_enable();
		work->fn(work);
		cond_resched();
	}
}

void kworker_start(void)
{
	this_cpu_write(kworker, kthread_create(kworker, NULL, "kworker"));
}
