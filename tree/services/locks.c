// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Locks. Spin locks exclude other CPUs. They disable preemption, softirqs and interrupts as the
 * kernel's spin locks do. If this CPU takes a lock that it already holds, a deadlock is reported.
 */
#include "service.h"

#define PREEMPT_OFFSET 1
#define SOFTIRQ_DISABLED 0x200

struct spinlock {
	volatile unsigned char locked;	/* the tree's inline unlock stores 0 here */
};

static unsigned char me(void)
{
	return (unsigned char)(cpu_read(CPU_NUMBER) + 1);
}

static bool try_take(struct spinlock *lock)
{
	unsigned char nobody = 0;

	return __atomic_compare_exchange_n(&lock->locked, &nobody, me(), false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void take(struct spinlock *lock)
{
	while (!try_take(lock)) {
		if (lock->locked == me())
			give_up("a spin lock is taken twice: deadlock");
		__asm__ volatile("pause");
	}
}

static void release(struct spinlock *lock)
{
	__atomic_store_n(&lock->locked, 0, __ATOMIC_RELEASE);
}

static void preempt_enable(void)
{
	bool due;

	also_count(-PREEMPT_OFFSET);
	__asm__ volatile("decl %%gs:%c1"
			 : "=@ccz"(due)
			 : "i"(CPU_PREEMPT_COUNT)
			 : "memory");
	if (due)
		kiln_preempt_schedule();
}

void SERVICE(_raw_spin_lock)(struct spinlock *lock)
{
	also_count(PREEMPT_OFFSET);
	cpu_add(CPU_PREEMPT_COUNT, PREEMPT_OFFSET);
	take(lock);
}

void SERVICE(_raw_spin_unlock)(struct spinlock *lock)
{
	release(lock);
	preempt_enable();
}

int SERVICE(_raw_spin_trylock)(struct spinlock *lock)
{
	also_count(PREEMPT_OFFSET);
	cpu_add(CPU_PREEMPT_COUNT, PREEMPT_OFFSET);
	if (try_take(lock))
		return 1;
	preempt_enable();
	return 0;
}

void SERVICE(_raw_spin_lock_bh)(struct spinlock *lock)
{
	also_count(SOFTIRQ_DISABLED + PREEMPT_OFFSET);
	kiln_local_bh_disable(SOFTIRQ_DISABLED + PREEMPT_OFFSET);
	take(lock);
}

void SERVICE(_raw_spin_unlock_bh)(struct spinlock *lock)
{
	release(lock);
	also_count(-(SOFTIRQ_DISABLED + PREEMPT_OFFSET));
	kiln_local_bh_enable(SOFTIRQ_DISABLED + PREEMPT_OFFSET);
}

int SERVICE(_raw_spin_trylock_bh)(struct spinlock *lock)
{
	also_count(SOFTIRQ_DISABLED + PREEMPT_OFFSET);
	kiln_local_bh_disable(SOFTIRQ_DISABLED + PREEMPT_OFFSET);
	if (try_take(lock))
		return 1;
	also_count(-(SOFTIRQ_DISABLED + PREEMPT_OFFSET));
	kiln_local_bh_enable(SOFTIRQ_DISABLED + PREEMPT_OFFSET);
	return 0;
}

void SERVICE(_raw_spin_lock_irq)(struct spinlock *lock)
{
	kiln_local_irq_disable();
	SERVICE(_raw_spin_lock)(lock);
}

void SERVICE(_raw_spin_unlock_irq)(struct spinlock *lock)
{
	release(lock);
	kiln_local_irq_enable();
	preempt_enable();
}

unsigned long SERVICE(_raw_spin_lock_irqsave)(struct spinlock *lock)
{
	const unsigned long flags = kiln_local_irq_save();

	SERVICE(_raw_spin_lock)(lock);
	return flags;
}

void SERVICE(_raw_spin_unlock_irqrestore)(struct spinlock *lock, unsigned long flags)
{
	release(lock);
	kiln_local_irq_restore(flags);
	preempt_enable();
}

/* Take and release the services' own locks. Both functions may be called in any context. */
unsigned long lock_irq(volatile unsigned char *lock)
{
	const unsigned long flags = kiln_local_irq_save();

	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		__asm__ volatile("pause");
	return flags;
}

void unlock_irq(volatile unsigned char *lock, unsigned long flags)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
	kiln_local_irq_restore(flags);
}

/*
 * Sleeping locks. The lock word is the first field of the tree's structure. It is zero while the
 * lock is free, so the tree's inline checks see the right state.
 */
struct sleeping_lock {
	volatile long word;	/* mutex: 1 if taken; rwsem: count of readers, or -1 for a writer */
};

static bool change(struct sleeping_lock *lock, long from, long to)
{
	return __atomic_compare_exchange_n(&lock->word, &from, to, false,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static bool take_read(struct sleeping_lock *lock)
{
	long word = lock->word;

	while (word >= 0) {
		if (change(lock, word, word + 1))
			return true;
		word = lock->word;
	}
	return false;
}

static bool take_write(struct sleeping_lock *lock)
{
	return change(lock, 0, -1);
}

static bool take_mutex(struct sleeping_lock *lock)
{
	return change(lock, 0, 1);
}

static void sleep_for(struct sleeping_lock *lock, bool (*take)(struct sleeping_lock *))
{
	may_sleep("takes a lock that may sleep");
	if (take(lock))
		return;
	for (;;) {
		kiln_wait_prepare(lock);
		if (take(lock))
			break;
		give_cpu();
	}
	kiln_wait_finish();
}

void SERVICE(mutex_lock)(struct sleeping_lock *lock)
{
	sleep_for(lock, take_mutex);
}

int SERVICE(mutex_lock_interruptible)(struct sleeping_lock *lock)
{
	sleep_for(lock, take_mutex);
	return 0;
}

int SERVICE(mutex_lock_killable)(struct sleeping_lock *lock)
{
	sleep_for(lock, take_mutex);
	return 0;
}

int SERVICE(mutex_trylock)(struct sleeping_lock *lock)
{
	return take_mutex(lock);
}

void SERVICE(mutex_unlock)(struct sleeping_lock *lock)
{
	__atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE);
	kiln_wake(lock);
}

void SERVICE(down_write)(struct sleeping_lock *lock)
{
	sleep_for(lock, take_write);
}

void SERVICE(up_write)(struct sleeping_lock *lock)
{
	__atomic_store_n(&lock->word, 0, __ATOMIC_RELEASE);
	kiln_wake(lock);
}

void SERVICE(down_read)(struct sleeping_lock *lock)
{
	sleep_for(lock, take_read);
}

void SERVICE(up_read)(struct sleeping_lock *lock)
{
	__atomic_fetch_sub(&lock->word, 1, __ATOMIC_RELEASE);
	kiln_wake(lock);
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

/* Does nothing. Waiters are in kernel/cpu's wait table, under the completion's address. */
NOTHING(__init_swait_queue_head)

/* Does nothing, because tasks never migrate to another CPU. */
void SERVICE(migrate_disable)(void)
{
}

void SERVICE(migrate_enable)(void)
{
}

NOTHING(__might_fault)

/* Does not wait, because no code here needs a grace period. */
void SERVICE(synchronize_rcu)(void)
{
	may_sleep("calls synchronize_rcu()");
}
