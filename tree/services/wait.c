// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Wait queues. Waiters are in the queue's list, which the tree's inline functions read. A waiter
 * sleeps in schedule() (kthread.c), unless its task's state has already been set to running.
 */
#include "service.h"

#define WAKES_ONE 1u

struct list {
	struct list *next, *prev;
};

/* Must match the tree's struct wait_queue_head without lock debugging. */
struct queue {
	unsigned int lock;
	struct list waiters;
};

/* Must match the tree's struct wait_queue_entry. */
struct waiter {
	unsigned int flags;
	void *task;
	int (*wake)(struct waiter *waiter, unsigned int mode, int flags, void *key);
	struct list link;
};

static struct waiter *waiter_of(struct list *link)
{
	return (struct waiter *)((char *)link - offsetof(struct waiter, link));
}

static unsigned long lock(struct queue *q)
{
	return lock_irq((volatile unsigned char *)&q->lock);
}

static void unlock(struct queue *q, unsigned long flags)
{
	unlock_irq((volatile unsigned char *)&q->lock, flags);
}

static void take_out(struct waiter *w)
{
	w->link.prev->next = w->link.next;
	w->link.next->prev = w->link.prev;
	w->link.next = w->link.prev = &w->link;
}

static bool waits(const struct waiter *w)
{
	return w->link.next != &w->link;
}

static void put_before(struct waiter *w, struct list *at)
{
	w->link.next = at;
	w->link.prev = at->prev;
	at->prev->next = &w->link;
	at->prev = &w->link;
}

void SERVICE(__init_waitqueue_head)(struct queue *q, const char *name, void *key)
{
	(void)name;
	(void)key;
	q->lock = 0;
	q->waiters.next = q->waiters.prev = &q->waiters;
}

int SERVICE(default_wake_function)(struct waiter *w, unsigned int mode, int flags, void *key)
{
	(void)mode;
	(void)flags;
	(void)key;
	return SERVICE(wake_up_process)(w->task);
}

int SERVICE(autoremove_wake_function)(struct waiter *w, unsigned int mode, int flags,
				      void *key)
{
	const int woken = SERVICE(default_wake_function)(w, mode, flags, key);

	if (woken)
		take_out(w);
	return woken;
}

void SERVICE(init_wait_entry)(struct waiter *w, int flags)
{
	w->flags = (unsigned int)flags;
	w->task = kiln_task_word(NULL);
	w->wake = SERVICE(autoremove_wake_function);
	w->link.next = w->link.prev = &w->link;
}

static void prepare(struct queue *q, struct waiter *w, int state, bool exclusive)
{
	const unsigned long flags = lock(q);

	w->flags = exclusive ? w->flags | WAKES_ONE : w->flags & ~WAKES_ONE;
	/* Exclusive waiters are woken one by one, in order, so add new ones at the end. */
	if (!waits(w))
		put_before(w, exclusive ? &q->waiters : q->waiters.next);
	kiln_glue_task_state(kiln_task_word(NULL), state);
	unlock(q, flags);
}

void SERVICE(prepare_to_wait)(struct queue *q, struct waiter *w, int state)
{
	prepare(q, w, state, false);
}

bool SERVICE(prepare_to_wait_exclusive)(struct queue *q, struct waiter *w, int state)
{
	prepare(q, w, state, true);
	return false;
}

/* Returns 0, because signals, which could interrupt the wait, do not exist. */
long SERVICE(prepare_to_wait_event)(struct queue *q, struct waiter *w, int state)
{
	prepare(q, w, state, w->flags & WAKES_ONE);
	return 0;
}

void SERVICE(finish_wait)(struct queue *q, struct waiter *w)
{
	const unsigned long flags = lock(q);

	kiln_glue_task_runs(kiln_task_word(NULL));
	if (waits(w))
		take_out(w);
	unlock(q, flags);
}

void SERVICE(add_wait_queue)(struct queue *q, struct waiter *w)
{
	const unsigned long flags = lock(q);

	w->flags &= ~WAKES_ONE;
	put_before(w, q->waiters.next);
	unlock(q, flags);
}

void SERVICE(remove_wait_queue)(struct queue *q, struct waiter *w)
{
	const unsigned long flags = lock(q);

	take_out(w);
	unlock(q, flags);
}

int SERVICE(__wake_up)(struct queue *q, unsigned int mode, int most, void *key)
{
	const unsigned long flags = lock(q);
	struct list *at, *next;
	int woken = 0;

	for (at = q->waiters.next; at != &q->waiters; at = next) {
		struct waiter *w = waiter_of(at);
		const unsigned int one = w->flags & WAKES_ONE;

		next = at->next;
		if (!w->wake(w, mode, 0, key))
			continue;
		woken++;
		if (one && !--most)
			break;
	}
	unlock(q, flags);
	return woken;
}
