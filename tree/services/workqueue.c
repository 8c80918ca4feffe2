// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Work queues. For each queue of the tree, kernel/cpu has one queue per CPU. Each of these has its
 * own thread, because work on one queue may wait for work on another. The thread is created when
 * work is first queued on that CPU, which may happen in a softirq.
 *
 * system_bh_wq has no thread. Its work runs in a softirq on the CPU on which it was queued.
 *
 * queue_work_on() ignores the CPU number, because CPUs here cannot interrupt each other. cryptd
 * always passes the number of the CPU on which it runs.
 */
#include "service.h"

#define MOST 64

struct workqueue {
	volatile unsigned int used;
	char name[24];
	struct kiln_workqueue on[CPUS_MOST];
	volatile unsigned char started[CPUS_MOST];
};

/* Number of the softirq that the kernel calls HI_SOFTIRQ. */
#define BH_SOFTIRQ 0

static struct workqueue bh;
static struct kiln_work *bh_first[CPUS_MOST], **bh_last[CPUS_MOST];
static struct kiln_work *volatile bh_running[CPUS_MOST];

static struct workqueue queues[MOST] = { { .used = 1, .name = "events" } };

/* All system queues except system_bh_wq are one queue, whose name is "events". */
void *SERVICE(system_wq) = queues, *SERVICE(system_percpu_wq) = queues;
void *SERVICE(system_long_wq) = queues, *SERVICE(system_unbound_wq) = queues;
void *SERVICE(system_bh_wq) = &bh;
void *SERVICE(system_dfl_wq) = queues, *SERVICE(system_highpri_wq) = queues;

void *SERVICE(alloc_workqueue)(const char *name, unsigned int flags, int most, ...)
{
	unsigned int i;

	(void)flags;
	(void)most;
	for (i = 0; i < MOST; i++) {
		if (__atomic_exchange_n(&queues[i].used, 1, __ATOMIC_ACQUIRE))
			continue;
		format(queues[i].name, sizeof(queues[i].name), "%s", name);
		return &queues[i];
	}
	return NULL;
}

void *SERVICE(alloc_workqueue_noprof)(const char *name, unsigned int flags, int most, ...)
{
	return SERVICE(alloc_workqueue)(name, flags, most);
}

/*
 * Returns this CPU's part of the queue. Interrupts must be disabled, so that the task stays on this
 * CPU.
 */
static struct kiln_workqueue *part(struct workqueue *wq)
{
	const unsigned int cpu = cpu_read(CPU_NUMBER);

	if (!wq->started[cpu]) {
		if (!kiln_workqueue_start(&wq->on[cpu], wq->name))
			give_up("no memory for the thread of a work queue");
		wq->started[cpu] = 1;
	}
	return &wq->on[cpu];
}

/* Queues work on system_bh_wq. Interrupts must be disabled. */
static bool queue_bh(struct kiln_work *work)
{
	const unsigned int cpu = cpu_read(CPU_NUMBER);

	if (work->pending & 1)
		return false;
	work->pending |= 1;
	work->next = NULL;
	work->queue = NULL;
	*bh_last[cpu] = work;
	bh_last[cpu] = &work->next;
	kiln_raise_softirq(BH_SOFTIRQ);
	return true;
}

static void run_bh(void *unused)
{
	const unsigned int cpu = cpu_read(CPU_NUMBER);
	struct kiln_work *work;
	unsigned long flags;

	(void)unused;
	for (;;) {
		flags = kiln_local_irq_save();
		work = bh_first[cpu];
		if (work) {
			bh_first[cpu] = work->next;
			if (!work->next)
				bh_last[cpu] = &bh_first[cpu];
			work->pending &= ~1ul;
		}
		bh_running[cpu] = work;
		kiln_local_irq_restore(flags);
		if (!work)
			return;
		work->fn(work);
	}
}

bool SERVICE(queue_work_on)(int cpu, struct workqueue *wq, struct kiln_work *work)
{
	const unsigned long flags = kiln_local_irq_save();
	const bool added = wq == &bh ? queue_bh(work) : kiln_queue_work(part(wq), work);

	(void)cpu;
	kiln_local_irq_restore(flags);
	return added;
}

bool SERVICE(cancel_work_sync)(struct kiln_work *work)
{
	const bool was = kiln_cancel_work(work);

	if (work->queue)
		kiln_flush_work(work->queue, work);
	return was;
}

bool SERVICE(flush_work)(struct kiln_work *work)
{
	const unsigned int cpu = cpu_read(CPU_NUMBER);

	/* system_bh_wq has no thread, so run this CPU's softirqs until the work is done. */
	while (!work->queue && ((work->pending & 1) || bh_running[cpu] == work))
		kiln_do_softirq();
	if (!work->queue)
		return false;
	kiln_flush_work(work->queue, work);
	return true;
}

static void nothing(struct kiln_work *work)
{
	(void)work;
}

static void drain(struct workqueue *wq)
{
	const unsigned int cpu = cpu_read(CPU_NUMBER);
	struct kiln_work last = { .fn = nothing };

	if (!wq->used || !wq->started[cpu])
		return;
	kiln_queue_work(&wq->on[cpu], &last);
	kiln_flush_work(&wq->on[cpu], &last);
}

/* Waits until all work queued on this CPU is done, except work on system_bh_wq. */
void wait_for_work(void)
{
	unsigned int i;

	for (i = 0; i < MOST; i++)
		drain(&queues[i]);
}

void SERVICE(kiln_settle)(void)
{
	wait_for_work();
}

void SERVICE(__flush_workqueue)(struct workqueue *wq)
{
	drain(wq);
}

void SERVICE(destroy_workqueue)(struct workqueue *wq)
{
	const unsigned int cpu = cpu_read(CPU_NUMBER);

	if (wq->started[cpu])
		kiln_workqueue_stop(&wq->on[cpu]);
	wq->started[cpu] = 0;
	wq->used = 0;
}

/* Called when a CPU boots. If the CPU has been booted before, its old threads are gone. */
void workqueue_cpu_starts(void)
{
	const unsigned int cpu = cpu_read(CPU_NUMBER);
	unsigned int i;

	for (i = 0; i < MOST; i++)
		queues[i].started[cpu] = 0;
	bh_last[cpu] = &bh_first[cpu];
	SERVICE(open_softirq)(BH_SOFTIRQ, run_bh);
}
