/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A lock that CPUs share. Interrupts must be off on the CPU that holds it. */
#ifndef KILN_SPINLOCK_H
#define KILN_SPINLOCK_H

#include <kiln/cpu.h>

struct spinlock {
	u32 locked;
};

/* Must be called with interrupts off. */
static __always_inline void spin_lock(struct spinlock *lock)
{
	while (__atomic_exchange_n(&lock->locked, 1, __ATOMIC_ACQUIRE))
		__asm__ volatile("pause");
}

static __always_inline void spin_unlock(struct spinlock *lock)
{
	__atomic_store_n(&lock->locked, 0, __ATOMIC_RELEASE);
}

/* Disables interrupts and takes the lock. Returns whether interrupts were off before. */
static __always_inline bool spin_lock_irqsave(struct spinlock *lock)
{
	const bool off = local_irq_save();

	spin_lock(lock);
	return off;
}

static __always_inline void spin_unlock_irqrestore(struct spinlock *lock, bool off)
{
	spin_unlock(lock);
	local_irq_restore(off);
}

#endif
