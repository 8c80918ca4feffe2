// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Work queues: kernel/cpu's, one for each queue of the tree and each CPU, since work of
 * one may wait for work of another. Its thread is started on its CPU when the first work
 * comes there, which may be in a softirq.
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

static struct workqueue queues[MOST] = { { .used = 1, .name = "events" } };

/* The tree's pointers to a struct workqueue_struct point to the first. */
void *SERVICE(system_wq) = queues, *SERVICE(system_percpu_wq) = queues;
void *SERVICE(system_long_wq) = queues, *SERVICE(system_unbound_wq) = queues;
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

bool SERVICE(queue_work_on)(int cpu, struct workqueue *wq, struct kiln_work *work)
{
	const unsigned long flags = kiln_local_irq_save();
	const bool added = kiln_queue_work(part(wq), work);

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
}
