// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Tests whether a task woken by an interrupt preempts the running task. The caller chooses how long
 * each of the two tasks has already run, because all schedulers base their decision on these times.
 */
#include <kiln/abi/cpu.h>
#include <kiln/abi/load.h>
#include <kiln/cpu.h>
#include <kiln/sched.h>

/* SETTLE_US is longer than any base slice in use, so the next schedule() begins a new slice. */
enum { SETTLE_US = 5000, SETTLE_YIELDS = 4 };

struct wakeup {
	struct kiln_wakeup *w;
	struct task *sleeper;
	bool asleep, woken;
};

static u64 spin(struct cpu *cpu, u32 us)
{
	const u64 start = rdtsc();

	while (rdtsc() - start < us * cpu->ticks_per_us)
		__asm__ volatile("pause");
	return rdtsc() - start;
}

static void sleep_once(void *arg)
{
	struct wakeup *wakeup = arg;

	wakeup->w->busy_for = spin(this_cpu(), wakeup->w->busy_us);
	local_irq_disable();
	wakeup->asleep = true;
	current->state = TASK_SLEEPING;
	schedule();
	local_irq_enable();
	wakeup->woken = true;
}

static void wake_hardirq(struct cpu *cpu)
{
	struct wakeup *wakeup = cpu->irq_data;

	wake_up(wakeup->sleeper);
	wakeup->w->slice_left = (s64)(cpu->current_task->deadline - cpu->current_task->vruntime);
}

u64 kiln_wakeup(void *arg)
{
	struct kiln_wakeup *w = arg;
	struct cpu *cpu = this_cpu();
	struct wakeup wakeup = { .w = w };
	u32 i;

	/*
	 * Let the CPU's own kthreads run until none of them has negative lag. They have no work, so
	 * all they do is go to sleep.
	 */
	for (i = 0; i < SETTLE_YIELDS; i++)
		yield();
	spin(cpu, SETTLE_US);
	schedule();

	wakeup.sleeper = kthread_run(sleep_once, &wakeup, "sleeper");
	if (!wakeup.sleeper)
		return 1;
	spin(cpu, w->wait_us);
	while (!*(volatile bool *)&wakeup.asleep)
		schedule();
	w->asleep_for = spin(cpu, w->asleep_us);

	cpu->irq_data = &wakeup;
	cpu->irq_handler = wake_hardirq;
	kiln_irq_self();
	cpu->irq_handler = NULL;
	w->preempted = *(volatile bool *)&wakeup.woken;
	while (!*(volatile bool *)&wakeup.woken)
		schedule();
	return 0;
}
