/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A lock between CPUs, held with this CPU's interrupts off.
 */
#ifndef KILN_SPINLOCK_H
#define KILN_SPINLOCK_H

#include <kiln/cpu.h>

struct spinlock {
	u32 locked;
};

/* Whether interrupts were off before. */
static __always_inline bool spin_lock_irqsave(struct spinlock *lock)
{
	const bool off = this_cpu_read(irqs_off);

	local_irq_disable();
	while (__atomic_exchange_n(&lock->locked, 1, __ATOMIC_ACQUIRE))
		__asm__ volatile("pause");
	return off;
}

static __always_inline void spin_unlock_irqrestore(struct spinlock *lock, bool off)
{
	__atomic_store_n(&lock->locked, 0, __ATOMIC_RELEASE);
	if (!off)
		local_irq_enable();
}

#endif
