// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Tests irq_fpu_usable() and kernel_fpu_begin() in every context. */
#include <kiln/abi/context.h>
#include <kiln/abi/cpu.h>
#include <kiln/abi/load.h>
#include <kiln/context.h>
#include <kiln/cpu.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>

enum { SOFTIRQ_ASK = 4 };

static void ask(struct kiln_usable *u)
{
	struct cpu *cpu = this_cpu();
	u64 before;

	u->over_section = cpu->section_base || (u->context <= KILN_TASK_BH_OFF &&
						cpu->section_depth);
	settle_count(cpu);
	u->preempt_count = preempt_count();
	u->usable = irq_fpu_usable();
	before = cpu->stats.warnings;
	/*
	 * If the task already has an open section, this tests re-entry. Contexts other than the
	 * task open a section only if irq_fpu_usable() allows it.
	 */
	if (u->usable || u->context <= KILN_TASK_BH_OFF) {
		kernel_fpu_begin();
		kernel_fpu_end();
	}
	u->warnings = cpu->stats.warnings - before;
}

static void ask_in_softirq(struct cpu *cpu)
{
	struct kiln_usable *u = cpu->irq_data;

	if (u->context == KILN_SOFTIRQ)
		ask(u);
	else
		/* Interrupt the softirq in the same way as other code is interrupted. */
		kiln_irq_self();
}

static void ask_in_hardirq(struct cpu *cpu)
{
	struct kiln_usable *u = cpu->irq_data;

	switch (u->context) {
	case KILN_HARDIRQ:
	case KILN_HARDIRQ_OVER_BH_OFF:
		ask(u);
		break;
	case KILN_HARDIRQ_OVER_SOFTIRQ:
		/*
		 * Test only while a softirq is being served. A task that has merely disabled
		 * softirqs is a different context.
		 */
		if (in_serving_softirq())
			ask(u);
		else
			raise_softirq(SOFTIRQ_ASK);
		break;
	case KILN_NMI:
		/* Set only the preempt count of an NMI; the NMI entry is not emulated. */
		enter_context(cpu, NMI_OFFSET);
		u->over_section = cpu->section_base;
		u->preempt_count = preempt_count();
		u->usable = irq_fpu_usable();
		leave_context(cpu, NMI_OFFSET);
		break;
	default:
		raise_softirq(SOFTIRQ_ASK);
	}
}

u64 kiln_usable(void *arg)
{
	struct kiln_usable *u = arg;
	struct cpu *cpu = this_cpu();
	const bool bh_off = u->context == KILN_TASK_BH_OFF ||
			    u->context == KILN_HARDIRQ_OVER_BH_OFF;

	irq_attach(u, SOFTIRQ_ASK, ask_in_softirq, ask_in_hardirq);
	if (bh_off)
		context_bh_disable();
	if (u->in_section)
		kernel_fpu_begin();

	if (u->context <= KILN_TASK_BH_OFF)
		ask(u);
	else
		kiln_irq_self();

	if (u->in_section)
		kernel_fpu_end();
	if (bh_off)
		context_bh_enable();
	cpu->irq_handler = NULL;
	settle_count(cpu);
	u->preempt_after = preempt_count();
	return 0;
}
