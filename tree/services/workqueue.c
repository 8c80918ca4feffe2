// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Work queues: one list in the order of queueing, run while somebody waits and
 * after each initcall, in whose thread that is.
 */
#include "service.h"

#define MOST 4096

/* As the tree's struct work_struct without its debugging aids. */
struct work {
	unsigned long data;
	void *entry[2];
	void (*fn)(struct work *work);
};

static struct work *queue[MOST];
static unsigned int head, tail;

static char a_queue[4096];
void *SERVICE(system_wq) = a_queue, *SERVICE(system_percpu_wq) = a_queue;
void *SERVICE(system_long_wq) = a_queue, *SERVICE(system_unbound_wq) = a_queue;
void *SERVICE(system_dfl_wq) = a_queue;

void *SERVICE(alloc_workqueue)(const char *format, unsigned int flags, int most, ...)
{
	(void)format;
	(void)flags;
	(void)most;
	return a_queue;
}

void *SERVICE(alloc_workqueue_noprof)(const char *format, unsigned int flags, int most, ...)
{
	(void)format;
	(void)flags;
	(void)most;
	return a_queue;
}

void SERVICE(destroy_workqueue)(void *wq)
{
	(void)wq;
	while (run_work())
		;
}

bool SERVICE(queue_work_on)(int cpu, void *wq, struct work *work)
{
	unsigned int i;

	(void)cpu;
	(void)wq;
	for (i = head; i != tail; i++)
		if (queue[i % MOST] == work)
			return false;
	if (tail - head == MOST)
		give_up("more work is queued than the host keeps");
	queue[tail++ % MOST] = work;
	return true;
}

bool SERVICE(cancel_work_sync)(struct work *work)
{
	unsigned int i;
	bool found = false;

	for (i = head; i != tail; i++) {
		if (queue[i % MOST] == work)
			found = true;
		else if (found)
			queue[(i - 1) % MOST] = queue[i % MOST];
	}
	tail -= found;
	return found;
}

bool run_work(void)
{
	struct work *work;

	if (head == tail)
		return false;
	work = queue[head++ % MOST];
	progress();
	work->fn(work);
	return true;
}

/* What is queued is short: all of it runs. */
bool SERVICE(flush_work)(struct work *work)
{
	bool any = false;

	(void)work;
	while (run_work())
		any = true;
	return any;
}
