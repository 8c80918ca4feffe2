// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Runs a function in another context: in an interrupt that this CPU sends to itself, or in a
 * tasklet that such an interrupt raises.
 */
#include <linux/bottom_half.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/preempt.h>

#include "fidelity.h"

enum { PATIENCE_MS = 1000 };

/*
 * What the pending interrupt calls. Only one may be pending at a time, but the softirq that it
 * raises may already request the next one.
 */
static void (*handler)(void *data);
static void *handler_data;
static bool handled;

static void handle(struct irq_work *work)
{
	void (*fn)(void *data) = handler;

	fn(handler_data);
	WRITE_ONCE(handled, true);
}

static struct irq_work interrupt = IRQ_WORK_INIT_HARD(handle);

bool where_interrupt(void (*fn)(void *data), void *data)
{
	const ktime_t end = ktime_add_ms(ktime_get(), PATIENCE_MS);
	unsigned long flags;
	bool queued;

	handler = fn;
	handler_data = data;
	WRITE_ONCE(handled, false);
	/* Delay the interrupt until irq_work_queue() has enabled preemption again. */
	local_irq_save(flags);
	queued = irq_work_queue(&interrupt);
	local_irq_restore(flags);
	if (!queued)
		return false;
	while (!READ_ONCE(handled))
		if (ktime_after(ktime_get(), end))
			return false;
	return true;
}

struct errand {
	enum where where;
	void (*fn)(void *data);
	void *data;
	bool done;
};

static struct errand *errand;

static void run(struct errand *e)
{
	e->fn(e->data);
	WRITE_ONCE(e->done, true);
}

static void run_it(void *data)
{
	run(data);
}

static void errand_softirq(struct tasklet_struct *tasklet)
{
	struct errand *e = errand;

	if (!e)
		return;
	if (e->where == WHERE_HARDIRQ_OVER_SOFTIRQ)
		where_interrupt(run_it, e);
	else
		run(e);
}

static DECLARE_TASKLET(errand_tasklet, errand_softirq);

static void errand_hardirq(void *data)
{
	struct errand *e = data;

	if (e->where == WHERE_SOFTIRQ || e->where == WHERE_HARDIRQ_OVER_SOFTIRQ)
		tasklet_schedule(&errand_tasklet);
	else
		run(e);
}

bool where_run(enum where where, void (*fn)(void *data), void *data)
{
	struct errand e = { .where = where, .fn = fn, .data = data };
	const bool bh_off = where == WHERE_TASK_BH_OFF || where == WHERE_HARDIRQ_OVER_BH_OFF;

	if (bh_off)
		local_bh_disable();
	if (where <= WHERE_TASK_BH_OFF) {
		run(&e);
	} else {
		preempt_disable();
		errand = &e;
		where_interrupt(errand_hardirq, &e);
		errand = NULL;
		preempt_enable();
	}
	if (bh_off)
		local_bh_enable();
	return READ_ONCE(e.done);
}
