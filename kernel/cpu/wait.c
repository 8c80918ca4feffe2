// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Sleeping and waking by address, across all CPUs of the process. All waiters are in one hash
 * table under one lock, which is held for a few instructions with interrupts off.
 *
 * A waiter first enters the table and then checks its condition; a waker first makes the
 * condition true and then searches the table. Therefore no wakeup is lost.
 */
#include <kiln/abi/hosted.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>
#include <kiln/spinlock.h>

#include "cpu_internal.h"

enum { BUCKETS = 64 };

static struct waiter *table[BUCKETS];
static struct spinlock table_lock;

static struct waiter **bucket(const volatile void *on)
{
	return &table[(u64)on * 0x9e3779b97f4a7c15ull >> 58];
}

static void unlink(struct task *t)
{
	*t->waiter.prev = t->waiter.next;
	if (t->waiter.next)
		t->waiter.next->prev = t->waiter.prev;
	t->waits = false;
}

static struct task *waiting(struct waiter *w)
{
	return (struct task *)((u8 *)w - __builtin_offsetof(struct task, waiter));
}

void wait_on(struct task *t, const volatile void *on)
{
	struct waiter **at = bucket(on);

	spin_lock(&table_lock);
	if (t->waits)
		unlink(t);
	t->waiter.on = on;
	t->waiter.next = *at;
	t->waiter.prev = at;
	if (*at)
		(*at)->prev = &t->waiter.next;
	*at = &t->waiter;
	t->waits = true;
	t->state = TASK_SLEEPING;
	spin_unlock(&table_lock);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void kiln_wait_prepare(const volatile void *on)
{
	const bool off = local_irq_save();

	wait_on(current, on);
	local_irq_restore(off);
}

void kiln_wait_finish(void)
{
	const bool off = local_irq_save();
	struct task *t = current;

	t->state = TASK_RUNNING;
	spin_lock(&table_lock);
	if (t->waits)
		unlink(t);
	spin_unlock_irqrestore(&table_lock, off);
}

void kiln_wake(const volatile void *on)
{
	struct cpu *cpu = this_cpu();
	struct waiter **at = bucket(on), *w, *next;
	bool off;

	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!__atomic_load_n(at, __ATOMIC_RELAXED))
		return;
	off = spin_lock_irqsave(&table_lock);
	for (w = *at; w; w = next) {
		struct task *t = waiting(w);

		next = w->next;
		if (w->on != on)
			continue;
		unlink(t);
		if (t->cpu == cpu)
			wake_up(t);
		else
			wake_up_remote(t);
	}
	spin_unlock_irqrestore(&table_lock, off);
}

/* Removes all tasks of a dying CPU from the table. */
void remove_waiters(struct cpu *cpu)
{
	u32 i;

	spin_lock(&table_lock);
	for (i = 0; i < cpu->nr_tasks; i++)
		if (cpu->task[i].waits)
			unlink(&cpu->task[i]);
	spin_unlock(&table_lock);
}

/* Adds a task to its CPU's list of remote wakeups. remote_queued prevents a second entry. */
void wake_up_remote(struct task *t)
{
	struct task *first;

	if (__atomic_exchange_n(&t->remote_queued, 1, __ATOMIC_ACQ_REL))
		return;
	first = __atomic_load_n(&t->cpu->remote, __ATOMIC_RELAXED);
	do {
		t->remote_next = first;
	} while (!__atomic_compare_exchange_n(&t->cpu->remote, &first, t, false,
					      __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/*
 * Performs the wakeups that other CPUs have queued for tasks of this CPU. Called with interrupts
 * off.
 */
void wakes_of_others(struct cpu *cpu)
{
	struct task *t, *next;

	for (t = __atomic_exchange_n(&cpu->remote, NULL, __ATOMIC_ACQUIRE); t; t = next) {
		next = t->remote_next;
		__atomic_store_n(&t->remote_queued, 0, __ATOMIC_RELEASE);
		wake_up(t);
	}
}
