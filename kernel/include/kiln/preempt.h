/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The preempt count, in the kernel's layout.
 *
 *	bits 0-7	preemption disabled, nesting depth
 *	bits 8-15	softirq: serving one adds 0x100, disabling them 0x200
 *	bits 16-19	hardirq
 *	bits 20-23	NMI
 *	bit 31		no reschedule requested (inverted, so that the word is zero
 *			if and only if preemption is both allowed and requested)
 */
#ifndef KILN_PREEMPT_H
#define KILN_PREEMPT_H

#include <kiln/cpu.h>

#define PREEMPT_OFFSET 0x1u
#define SOFTIRQ_OFFSET 0x100u
#define SOFTIRQ_DISABLE_OFFSET 0x200u
#define HARDIRQ_OFFSET 0x10000u
#define NMI_OFFSET 0x100000u

#define PREEMPT_MASK 0xffu
#define SOFTIRQ_MASK 0xff00u
#define HARDIRQ_MASK 0xf0000u
#define NMI_MASK 0xf00000u
#define PREEMPT_NEED_RESCHED 0x80000000u

static __always_inline u32 preempt_count(void)
{
	return this_cpu_read(preempt_count) & ~PREEMPT_NEED_RESCHED;
}

static __always_inline void preempt_count_add(u32 n)
{
	this_cpu_add(preempt_count, n);
	barrier();
}

static __always_inline void preempt_count_sub(u32 n)
{
	barrier();
	this_cpu_add(preempt_count, -n);
}

#define softirq_count() (preempt_count() & SOFTIRQ_MASK)
#define hardirq_count() (preempt_count() & HARDIRQ_MASK)
#define in_nmi() (preempt_count() & NMI_MASK)
#define in_hardirq() hardirq_count()
#define in_softirq() softirq_count()
#define in_serving_softirq() (softirq_count() & SOFTIRQ_OFFSET)
#define in_interrupt() (preempt_count() & (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_MASK))
#define in_task() \
	(!(preempt_count() & (NMI_MASK | HARDIRQ_MASK | SOFTIRQ_OFFSET)))
#define in_atomic() (preempt_count() != 0)

void preempt_schedule(void);

static __always_inline void preempt_disable(void)
{
	preempt_count_add(PREEMPT_OFFSET);
}

static __always_inline void preempt_enable_no_resched(void)
{
	preempt_count_sub(PREEMPT_OFFSET);
}

/* One decrement and one branch are enough: the word is zero exactly when a reschedule is due. */
static __always_inline void preempt_enable(void)
{
	bool due;

	barrier();
	__asm__ volatile("decl %%gs:%c1"
			 : "=@ccz"(due)
			 : "i"(__builtin_offsetof(struct cpu, preempt_count))
			 : "memory");
	if (unlikely(due))
		preempt_schedule();
}

#endif
