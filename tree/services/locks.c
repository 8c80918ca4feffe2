// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Locks, on one CPU: nobody else can hold one, so what counts is what taking one
 * does to the preempt count. A spin lock that is already taken is a deadlock.
 */
#include "service.h"

#define SOFTIRQ_DISABLED 0x200
#define FLAGS_IF 0x200ul

struct spinlock {
	volatile unsigned char locked;	/* the tree's inline unlock stores 0 here */
};

static void take(struct spinlock *lock)
{
	if (lock->locked)
		give_up("a spin lock is taken twice: deadlock");
	lock->locked = 1;
}

static void irqs_off(bool off)
{
	cpu_write(CPU_IRQS_OFF, off);
}

void SERVICE(_raw_spin_lock)(struct spinlock *lock)
{
	kiln_glue_count(1);
	take(lock);
}

void SERVICE(_raw_spin_unlock)(struct spinlock *lock)
{
	lock->locked = 0;
	kiln_glue_count(-1);
}

int SERVICE(_raw_spin_trylock)(struct spinlock *lock)
{
	if (lock->locked)
		return 0;
	SERVICE(_raw_spin_lock)(lock);
	return 1;
}

void SERVICE(_raw_spin_lock_bh)(struct spinlock *lock)
{
	kiln_glue_count(SOFTIRQ_DISABLED + 1);
	take(lock);
}

void SERVICE(_raw_spin_unlock_bh)(struct spinlock *lock)
{
	lock->locked = 0;
	kiln_glue_count(-(SOFTIRQ_DISABLED + 1));
}

void SERVICE(_raw_spin_lock_irq)(struct spinlock *lock)
{
	irqs_off(true);
	SERVICE(_raw_spin_lock)(lock);
}

void SERVICE(_raw_spin_unlock_irq)(struct spinlock *lock)
{
	SERVICE(_raw_spin_unlock)(lock);
	irqs_off(false);
}

unsigned long SERVICE(_raw_spin_lock_irqsave)(struct spinlock *lock)
{
	const unsigned long flags = cpu_read(CPU_IRQS_OFF) ? 0 : FLAGS_IF;

	SERVICE(_raw_spin_lock_irq)(lock);
	return flags;
}

void SERVICE(_raw_spin_unlock_irqrestore)(struct spinlock *lock, unsigned long flags)
{
	SERVICE(_raw_spin_unlock)(lock);
	if (flags & FLAGS_IF)
		irqs_off(false);
}

void SERVICE(__local_bh_disable_ip)(unsigned long ip, unsigned int count)
{
	(void)ip;
	kiln_glue_count(count);
}

void SERVICE(__local_bh_enable_ip)(unsigned long ip, unsigned int count)
{
	(void)ip;
	kiln_glue_count(-count);
}

/*
 * Sleeping locks: who finds one taken lets other threads run. The word is the first
 * of the tree's structure, and zero when the lock is free, so that the tree's inline
 * questions get true answers.
 */
struct sleeping_lock {
	volatile long word;	/* mutex: taken; rwsem: readers, or -1 for a writer */
};

void SERVICE(mutex_lock)(struct sleeping_lock *lock)
{
	while (lock->word)
		yield();
	lock->word = 1;
}

int SERVICE(mutex_trylock)(struct sleeping_lock *lock)
{
	if (lock->word)
		return 0;
	lock->word = 1;
	return 1;
}

void SERVICE(mutex_unlock)(struct sleeping_lock *lock)
{
	lock->word = 0;
	progress();
}

void SERVICE(down_write)(struct sleeping_lock *lock)
{
	while (lock->word)
		yield();
	lock->word = -1;
}

void SERVICE(up_write)(struct sleeping_lock *lock)
{
	lock->word = 0;
	progress();
}

void SERVICE(down_read)(struct sleeping_lock *lock)
{
	while (lock->word < 0)
		yield();
	lock->word++;
}

void SERVICE(up_read)(struct sleeping_lock *lock)
{
	lock->word--;
	progress();
}

void SERVICE(__mutex_init)(struct sleeping_lock *lock)
{
	lock->word = 0;
}

void SERVICE(__init_rwsem)(struct sleeping_lock *lock)
{
	lock->word = 0;
}

#define NOTHING(name)                       \
	void SERVICE(name)(void *p)         \
	{                                   \
		(void)p;                    \
	}

/* Whoever waits asks again and again: there is no queue of waiters. */
NOTHING(__init_swait_queue_head)
NOTHING(__init_waitqueue_head)

/* There is one CPU to be on, and nobody to give way to. */
void SERVICE(migrate_disable)(void)
{
}

void SERVICE(migrate_enable)(void)
{
}

int SERVICE(__cond_resched)(void)
{
	return 0;
}

int SERVICE(dynamic_cond_resched)(void)
{
	return 0;
}

NOTHING(__might_sleep)
NOTHING(__might_resched)
NOTHING(__might_fault)
NOTHING(synchronize_rcu)
