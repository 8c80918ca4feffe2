// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Implements the functions that hosted.h declares. Code in a kernel tree aligns the stack to only
 * eight bytes, but Kiln's handlers need sixteen, so functions that may run a handler realign the
 * stack.
 */
#include <kiln/abi/hosted.h>
#include <kiln/context.h>
#include <kiln/cpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>

#include "cpu_internal.h"

#define BORDER __attribute__((force_align_arg_pointer))
#define FLAGS_IF 0x200ul

bool BORDER kiln_attach(const struct kiln_hooks *hooks)
{
	struct cpu *cpu = this_cpu();
	u32 i;

	for (i = 0; i < cpu->nr_tasks; i++) {
		struct task *t = &cpu->task[i];

		if (t->state == TASK_FREE)
			continue;
		t->foreign = hooks->new_task(t->foreign, t->name,
					     !(t->flags & TF_KTHREAD));
		if (!t->foreign)
			return false;
	}
	this_cpu_write(foreign, current->foreign);
	this_cpu_write(hooks, hooks);
	return true;
}

void kiln_detach(void)
{
	struct cpu *cpu = this_cpu();
	u32 i;

	cpu->hooks = NULL;
	cpu->foreign = NULL;
	for (i = 0; i < cpu->nr_tasks; i++)
		cpu->task[i].foreign = NULL;
}

void count_foreign(struct cpu *cpu)
{
	const bool off = local_irq_save();

	preempt_count_add(cpu->hooks->uncounted());
	this_cpu_write(irqs_off, off);
}

void kiln_local_bh_disable(unsigned int count)
{
	preempt_count_add(count);
}

void BORDER kiln_local_bh_enable(unsigned int count)
{
	bh_enable(count);
}

void BORDER kiln_bh_enabled(void)
{
	settle_count(this_cpu());
	preempt_disable();
	bh_enable(PREEMPT_OFFSET);
}

unsigned long kiln_local_irq_save(void)
{
	return local_irq_save() ? 0 : FLAGS_IF;
}

void BORDER kiln_local_irq_restore(unsigned long flags)
{
	local_irq_restore(!(flags & FLAGS_IF));
}

void kiln_local_irq_disable(void)
{
	local_irq_disable();
}

void BORDER kiln_local_irq_enable(void)
{
	local_irq_enable();
}

void BORDER kiln_raise_softirq(unsigned int nr)
{
	raise_softirq(nr);
}

void kiln_open_softirq(unsigned int nr, void (*handler)(void *cpu))
{
	if (nr < NR_SOFTIRQS)
		this_cpu()->softirq_handler[nr] = (irq_handler_t *)handler;
}

void kiln_on_interrupt(void (*handler)(void *cpu))
{
	this_cpu()->irq_handler = (irq_handler_t *)handler;
}

/*
 * Defines a function that first accounts for the tree's own changes to the preempt count and then
 * calls the function of the same name without the prefix.
 */
#define SETTLED(name)             \
void BORDER kiln_##name(void)     \
{                                 \
	settle_count(this_cpu()); \
	name();                   \
}
SETTLED(do_softirq)
SETTLED(preempt_schedule)
SETTLED(schedule)
SETTLED(yield)

bool BORDER kiln_cond_resched(void)
{
	settle_count(this_cpu());
	return cond_resched();
}

bool kiln_need_resched(void)
{
	return need_resched();
}

void *BORDER kiln_kthread_create(void (*fn)(void *arg), void *arg, const char *name)
{
	return kthread_create(fn, arg, name);
}

void *kiln_task_word(void *task)
{
	return task ? ((struct task *)task)->foreign : this_cpu_read(foreign);
}

void BORDER kiln_kthread_exit(void)
{
	kthread_exit();
}

void kiln_warn(void)
{
	this_cpu_inc(stats.warnings);
}
