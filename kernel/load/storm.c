// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Raises more softirqs than one run of the softirq loop handles, and queues work for the kworker.
 * Records where they are handled and whether any is lost.
 */
#include <kiln/abi/cpu.h>
#include <kiln/abi/hosted.h>
#include <kiln/abi/load.h>
#include <kiln/cpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>

enum { SOFTIRQ_STORM = 5, NR_ITEMS = 4 };

struct storm;

struct item {
	struct kiln_work work;	/* must be first: its address is used as the address of the item */
	struct storm *storm;
};

struct storm {
	struct kiln_storm *s;
	struct item item[NR_ITEMS];
	bool bystander_stop, bystander_stopped;
};

static void item_run(struct kiln_work *work)
{
	struct kiln_storm *s = ((struct item *)work)->storm->s;
	struct cpu *cpu = this_cpu();

	s->works_run++;
	s->works_misplaced += current != cpu->kworker ||
			      !(current->flags & TF_KTHREAD) || in_atomic();
}

static void storm_softirq(struct cpu *cpu)
{
	struct storm *storm = cpu->irq_data;
	struct kiln_storm *s = storm->s;
	const u64 end = rdtsc() + s->spin_us * cpu->ticks_per_us;
	u32 i;

	s->served++;
	if (current == cpu->ksoftirqd)
		s->by_ksoftirqd++;
	for (i = 0; i < NR_ITEMS && s->queue_works; i++) {
		if (kiln_queue_work(NULL, &storm->item[i].work))
			s->works_accepted++;
		else
			s->works_refused++;
	}
	if (s->interrupt)
		kiln_irq_self();
	while (rdtsc() < end)
		__asm__ volatile("pause");
	if (s->served < s->raises && !s->raise_in_irq)
		raise_softirq(SOFTIRQ_STORM);
}

/*
 * The first interrupt raises the softirq. Later interrupts, which interrupt a softirq, raise the
 * next one only if raise_in_irq is set.
 */
static void storm_hardirq(struct cpu *cpu)
{
	const struct kiln_storm *s = ((struct storm *)cpu->irq_data)->s;

	if (!s->served || (s->raise_in_irq && s->served < s->raises))
		raise_softirq(SOFTIRQ_STORM);
}

/* The function of a second task, which is always runnable. */
static void bystander(void *arg)
{
	struct storm *storm = arg;

	while (!*(volatile bool *)&storm->bystander_stop)
		yield();
	storm->bystander_stopped = true;
}

u64 kiln_storm(void *arg)
{
	struct kiln_storm *s = arg;
	struct cpu *cpu = this_cpu();
	struct storm storm;
	u32 i;

	storm.s = s;
	storm.bystander_stop = storm.bystander_stopped = false;
	for (i = 0; i < NR_ITEMS; i++) {
		storm.item[i].work.fn = item_run;
		storm.item[i].work.pending = 0;
		storm.item[i].storm = &storm;
	}
	s->count_before = preempt_count();
	if (s->bystander && !kthread_run(bystander, &storm, "bystander"))
		return 1;
	irq_attach(&storm, SOFTIRQ_STORM, storm_softirq, storm_hardirq);
	kiln_irq_self();
	s->first_loop = *(volatile u32 *)&s->served;
	while (*(volatile u32 *)&s->served < s->raises ||
	       *(volatile u32 *)&s->works_run < s->works_accepted)
		yield();
	cpu->irq_handler = NULL;
	storm.bystander_stop = true;
	while (s->bystander && !*(volatile bool *)&storm.bystander_stopped)
		yield();
	s->count_after = preempt_count();
	return 0;
}
