// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Work queues. Each has a thread on one CPU that runs the queue's work items one after another. */
#include <kiln/abi/hosted.h>
#include <kiln/cpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>

#include "cpu_internal.h"

#define PENDING 1ul

/*
 * Appends an item unless it is already pending. The queue's thread waits on the queue's address;
 * tasks that flush the queue wait on the address of its @running field.
 */
static bool queue(struct kiln_workqueue *q, struct kiln_work *work)
{
	if (work->pending & PENDING)
		return false;
	work->pending |= PENDING;
	work->queue = q;
	work->next = NULL;
	if (q->tail)
		q->tail->next = work;
	else
		q->head = work;
	q->tail = work;
	return true;
}

bool kiln_queue_work(struct kiln_workqueue *q, struct kiln_work *work)
{
	const bool off = local_irq_save();
	bool added;

	if (!q)
		q = &this_cpu()->works;
	added = queue(q, work);
	if (added)
		kiln_wake(q);
	local_irq_restore(off);
	return added;
}

static struct kiln_work *take(struct kiln_workqueue *q)
{
	struct kiln_work *work = q->head;

	if (work) {
		q->head = work->next;
		if (!q->head)
			q->tail = NULL;
		work->pending &= ~PENDING;
	}
	q->running = work;
	return work;
}

static void worker(void *arg)
{
	struct kiln_workqueue *q = arg;

	for (;;) {
		struct kiln_work *work;

		local_irq_disable();
		work = take(q);
		local_irq_enable();
		/* @work may free itself when it runs, so do not touch it afterwards. */
		if (work) {
			work->fn(work);
			if (this_cpu()->hooks && this_cpu()->hooks->worked)
				this_cpu()->hooks->worked();
			q->running = NULL;
			kiln_wake(&q->running);
			cond_resched();
			continue;
		}
		if (q->stopped)
			break;
		kiln_wait_prepare(q);
		if (!*(struct kiln_work *volatile *)&q->head && !q->stopped)
			schedule();
		kiln_wait_finish();
	}
	q->stopped = 2;
	kiln_wake(&q->running);
}

static struct task *start(struct kiln_workqueue *q, const char *name)
{
	q->head = q->tail = NULL;
	q->running = NULL;
	q->stopped = 0;
	return kthread_run(worker, q, name);
}

bool kiln_workqueue_start(struct kiln_workqueue *q, const char *name)
{
	return start(q, name);
}

void kiln_workqueue_stop(struct kiln_workqueue *q)
{
	q->stopped = 1;
	kiln_wake(q);
	wait_until(&q->running, q->stopped == 2);
}

bool kiln_cancel_work(struct kiln_work *work)
{
	const bool off = local_irq_save();
	const bool pending = work->pending & PENDING;

	if (pending) {
		struct kiln_workqueue *q = work->queue;
		struct kiln_work **at = &q->head, *before = NULL;

		while (*at != work) {
			before = *at;
			at = &before->next;
		}
		*at = work->next;
		if (q->tail == work)
			q->tail = before;
		work->pending &= ~PENDING;
		kiln_wake(&q->running);
	}
	local_irq_restore(off);
	return pending;
}

void kiln_flush_work(struct kiln_workqueue *q, struct kiln_work *work)
{
	if (!q)
		q = &this_cpu()->works;
	wait_until(&q->running, !(work->pending & PENDING) && q->running != work);
}

void kworker_start(void)
{
	struct cpu *cpu = this_cpu();

	cpu->kworker = start(&cpu->works, "kworker");
}
