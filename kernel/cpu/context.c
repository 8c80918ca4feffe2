// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Runs a function in another context by raising a real interrupt. */
#include <kiln/context.h>
#include <kiln/preempt.h>

enum { SOFTIRQ_ERRAND = 6 };

struct errand {
	enum kiln_context context;
	void (*fn)(void *arg);
	void *arg;
	irq_handler_t *handler;	/* the CPU's own handler, while errand_hardirq() replaces it */
	bool done;
};

static void errand_hardirq(struct cpu *cpu);

/*
 * Raises an interrupt that runs the errand or enters the errand's context. errand_hardirq() first
 * reinstalls the CPU's own handler.
 */
static void interrupt_for(struct cpu *cpu, struct errand *e)
{
	local_irq_disable();
	e->handler = cpu->irq_handler;
	cpu->irq_handler = errand_hardirq;
	this_cpu_write(irq_pending, 1);
	local_irq_enable();
}

static void run(struct errand *e)
{
	e->fn(e->arg);
	e->done = true;
}

static void errand_softirq(struct cpu *cpu)
{
	struct errand *e = cpu->errand;

	if (!e)
		return;
	if (e->context == KILN_HARDIRQ_OVER_SOFTIRQ)
		interrupt_for(cpu, e);
	else
		run(e);
}

static void errand_hardirq(struct cpu *cpu)
{
	struct errand *e = cpu->errand;

	cpu->irq_handler = e->handler;
	switch (e->context) {
	case KILN_HARDIRQ_OVER_SOFTIRQ:
		if (in_serving_softirq())
			run(e);
		else
			raise_softirq(SOFTIRQ_ERRAND);
		break;
	case KILN_SOFTIRQ:
		raise_softirq(SOFTIRQ_ERRAND);
		break;
	case KILN_NMI:
		/* Emulate only the preempt count of an NMI, not the NMI entry. */
		enter_context(cpu, NMI_OFFSET);
		run(e);
		leave_context(cpu, NMI_OFFSET);
		break;
	default:
		run(e);
	}
	/*
	 * A real interrupt may have been merged with the one raised for the errand, so also call
	 * the CPU's own handler.
	 */
	if (e->handler)
		e->handler(cpu);
}

void context_bh_disable(void)
{
	local_bh_disable();
	tell_context(this_cpu(), SOFTIRQ_DISABLE_OFFSET);
}

void context_bh_enable(void)
{
	tell_context(this_cpu(), -(s32)SOFTIRQ_DISABLE_OFFSET);
	local_bh_enable();
}

bool run_in_context(enum kiln_context context, void (*fn)(void *arg), void *arg)
{
	struct cpu *cpu = this_cpu();
	struct errand e = { .context = context, .fn = fn, .arg = arg };
	const bool bh_off = context == KILN_TASK_BH_OFF ||
			    context == KILN_HARDIRQ_OVER_BH_OFF;

	if (bh_off)
		context_bh_disable();
	if (context <= KILN_TASK_BH_OFF) {
		run(&e);
	} else {
		/* The CPU has only one errand, so other tasks must not run until it is done. */
		preempt_disable();
		cpu->errand = &e;
		cpu->softirq_handler[SOFTIRQ_ERRAND] = errand_softirq;
		interrupt_for(cpu, &e);
		/*
		 * Run softirqs until the errand is done. If the task has disabled softirqs, the
		 * errand cannot run.
		 */
		while (!*(volatile bool *)&e.done && !softirq_count())
			do_softirq();
		cpu->errand = NULL;
		preempt_enable();
	}
	if (bh_off)
		context_bh_enable();
	return e.done;
}
