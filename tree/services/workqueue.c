// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Work queues: kernel/cpu's, one for each queue of the tree and each CPU, since work of
 * one may wait for work of another. Its thread is started on its CPU when the first work
 * comes there, which may be in a softirq.
 *
 * The queue system_bh_wq has no thread: its work runs in a softirq of the CPU that
 * queued it.
 *
 * Work for another CPU goes to this one's thread: nothing here sends interrupts to
 * others. cryptd names the CPU that it is on.
 */
#include "service.h"

#define MOST 64

struct workqueue {
	volatile unsigned int used;
	char name[24];
	struct kiln_workqueue on[CPUS_MOST];
	volatile unsigned char started[CPUS_MOST];
};

/* The kernel's HI_SOFTIRQ. */
#define BH_SOFTIRQ 0

static struct workqueue bh;
static struct kiln_work *bh_first[CPUS_MOST], **bh_last[CPUS_MOST];
static struct kiln_work *volatile bh_running[CPUS_MOST];

static struct workqueue queues[MOST] = { { .used = 1, .name = "events" } };

/* The tree's pointers to a struct workqueue_struct point to the first. */
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

/* The queue's part on this CPU; interrupts are off, so this stays the CPU. */
static struct kiln_workqueue *part(struct workqueue *wq)
{
	const unsigned int cpu = cpu_read(CPU_NUMBER);

	if (!wq->started[cpu]) {
		if (!kiln_workqueue_start(&wq->on[cpu], wq->name))
			give_up("no room for the thread of a work queue");
		wq->started[cpu] = 1;
	}
	return &wq->on[cpu];
}

/* Interrupts are off. */
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

	/* Of system_bh_wq: softirqs of this CPU are run by whoever waits for one. */
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

/* All that is queued on this CPU now is done on return. */
void wait_for_work(void)
{
	unsigned int i;

	for (i = 0; i < MOST; i++)
		drain(&queues[i]);
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

/* A CPU that was booted has none of the threads that one of its number had before. */
void workqueue_cpu_starts(void)
{
	const unsigned int cpu = cpu_read(CPU_NUMBER);
	unsigned int i;

	for (i = 0; i < MOST; i++)
		queues[i].started[cpu] = 0;
	bh_last[cpu] = &bh_first[cpu];
	SERVICE(open_softirq)(BH_SOFTIRQ, run_bh);
}
