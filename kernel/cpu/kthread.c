// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Kernel threads: tasks without user mode, each with its own stack.
 */
#include <kiln/cpu.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>
#include <kiln/string.h>

#include "cpu_internal.h"

/* Initialises a task. Keeps @t->foreign, so that the hosted tree can reuse its task structure. */
void task_init(struct cpu *cpu, struct task *t, const char *name)
{
	void *const foreign = t->foreign;

	memset(t, 0, __builtin_offsetof(struct task, user_fpu));
	fpstate_init(&t->kernel_fpu);
	t->foreign = foreign;
	t->cpu = cpu;
	t->name = name;
}

/*
 * Every new task starts here, with interrupts off and a preempt count of one, as after any task
 * switch.
 */
void task_main(void)
{
	struct task *t = current;

	/* A remote wakeup meant for the previous user of this task structure may still arrive. */
	while (t->waits) {
		t->state = TASK_SLEEPING;
		preempt_enable_no_resched();
		schedule();
		preempt_disable();
	}
	preempt_enable_no_resched();
	local_irq_enable();
	t->fn(t->arg);
	kthread_exit();
}

void kthread_exit(void)
{
	struct task *t = current;

	kiln_wait_finish();
	local_irq_disable();
	t->state = TASK_FREE;
	schedule();
	__builtin_trap();
}

static struct task *create(void (*fn)(void *arg), void *arg, const char *name)
{
	struct cpu *cpu = this_cpu();
	struct task *t;
	u64 *sp;
	u32 i;

	/*
	 * While the CPU is in the idle loop, a task that has exited may still be the current task.
	 * Do not reuse it yet.
	 */
	for (i = 1; i < cpu->nr_tasks; i++)
		if (cpu->task[i].state == TASK_FREE && &cpu->task[i] != current)
			break;
	if (i == cpu->nr_tasks)
		return NULL;
	t = &cpu->task[i];
	task_init(cpu, t, name);
	if (cpu->hooks) {
		t->foreign = cpu->hooks->new_task(t->foreign, name, false);
		if (!t->foreign)
			return NULL;
	}
	/* Build the frame that cpu_switch() pops: six registers and the return address. */
	sp = (u64 *)(cpu->kstacks + i * cpu->kstack_stride + cpu->kstack_size);
	*--sp = 0;
	*--sp = (u64)cpu_task_start;
	sp -= 6;
	t->sp = (u64)sp;
	t->flags = TF_KTHREAD;
	t->fn = fn;
	t->arg = arg;
	t->vruntime = cpu->current_task->vruntime;
	t->slice_start = t->vruntime;
	t->deadline = t->vruntime;
	wait_on(t, t->foreign ? t->foreign : t);
	return t;
}

struct task *kthread_create(void (*fn)(void *arg), void *arg, const char *name)
{
	const bool off = local_irq_save();
	struct task *t = create(fn, arg, name);

	local_irq_restore(off);
	return t;
}

struct task *kthread_run(void (*fn)(void *arg), void *arg, const char *name)
{
	struct task *t = kthread_create(fn, arg, name);

	if (t)
		kiln_wake(t->foreign ? t->foreign : t);
	return t;
}
