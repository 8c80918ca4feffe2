// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * An errand: a function's way into another context, by the path of any interrupt.
 */
#include <kiln/context.h>
#include <kiln/preempt.h>

enum { SOFTIRQ_ERRAND = 6 };

struct errand {
	enum kiln_context context;
	void (*fn)(void *arg);
	void *arg;
	irq_handler_t *handler;	/* what interrupts did before */
	bool done;
};

static void errand_hardirq(struct cpu *cpu);

/* One interrupt is the errand's; those that come into it are what they always are. */
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
		/* A state, not an entry: NMIs nest in anything. */
		preempt_count_add(NMI_OFFSET);
		run(e);
		preempt_count_sub(NMI_OFFSET);
		break;
	default:
		run(e);
	}
	/* What came together with the errand's interrupt has its own now. */
	if (e->handler)
		e->handler(cpu);
}

bool run_in_context(enum kiln_context context, void (*fn)(void *arg), void *arg)
{
	struct cpu *cpu = this_cpu();
	struct errand e = { .context = context, .fn = fn, .arg = arg };
	const bool bh_off = context == KILN_TASK_BH_OFF ||
			    context == KILN_HARDIRQ_OVER_BH_OFF;

	if (bh_off)
		local_bh_disable();
	if (context <= KILN_TASK_BH_OFF) {
		run(&e);
	} else {
		/* One at a time: whoever comes here meanwhile would need its own. */
		preempt_disable();
		cpu->errand = &e;
		cpu->softirq_handler[SOFTIRQ_ERRAND] = errand_softirq;
		interrupt_for(cpu, &e);
		/* What keeps softirqs out keeps the errand out as well. */
		while (!*(volatile bool *)&e.done && !softirq_count())
			do_softirq();
		cpu->errand = NULL;
		preempt_enable();
	}
	if (bh_off)
		local_bh_enable();
	return e.done;
}
