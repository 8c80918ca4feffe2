/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Execution contexts, and how a tree with its own preempt count is notified of them.
 *
 * cpu/context.c APIs:
 *	run_in_context		runs a function in a given context
 *	context_bh_disable	local_bh_disable() that also notifies the tree
 *	context_bh_enable	local_bh_enable() that also notifies the tree
 * cpu/hosted.c APIs:
 *	count_foreign		accounts for what inline functions added to the tree's own count
 */
#ifndef KILN_CONTEXT_H
#define KILN_CONTEXT_H

#include <kiln/abi/context.h>
#include <kiln/abi/hosted.h>
#include <kiln/cpu.h>
#include <kiln/preempt.h>

/*
 * Called by a task. Raises an interrupt to enter the context, and returns after @fn has run there.
 * Returns false without calling @fn if the context cannot be reached, for example a softirq while
 * softirqs are disabled.
 */
bool run_in_context(enum kiln_context context, void (*fn)(void *arg), void *arg);

void context_bh_disable(void);
void context_bh_enable(void);

void count_foreign(struct cpu *cpu);

/* Must be called before testing the preempt count of a CPU that may run a tree's code. */
static __always_inline void settle_count(struct cpu *cpu)
{
	if (unlikely(cpu->hooks) && cpu->hooks->uncounted)
		count_foreign(cpu);
}

static __always_inline void tell_context(struct cpu *cpu, s32 n)
{
	if (unlikely(cpu->hooks) && cpu->hooks->context)
		cpu->hooks->context(n);
}

/* Enters a context that adds @n to the preempt count: HARDIRQ_, SOFTIRQ_ or NMI_OFFSET. */
static __always_inline void enter_context(struct cpu *cpu, u32 n)
{
	preempt_count_add(n);
	tell_context(cpu, (s32)n);
}

static __always_inline void leave_context(struct cpu *cpu, u32 n)
{
	tell_context(cpu, -(s32)n);
	preempt_count_sub(n);
}

#endif
