// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Kernel threads: tasks without a user mode, on stacks of their own.
 */
#include <kiln/cpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>

#include "cpu_internal.h"

/* switch.S jumps here on the task's own stack, as a switch leaves things. */
void task_main(void)
{
	struct task *t = current;

	preempt_enable_no_resched();
	local_irq_enable();
	t->fn(t->arg);
	local_irq_disable();
	t->state = TASK_FREE;
	schedule();
	__builtin_trap();
}

struct task *kthread_create(void (*fn)(void *arg), void *arg, const char *name)
{
	struct cpu *cpu = this_cpu();
	size_t i;

	for (i = 1; i < NR_TASKS; i++) {
		struct task *t = &cpu->task[i];
		u64 *sp;

		if (t->state != TASK_FREE)
			continue;
		/* What cpu_switch() pops: six registers and where to return. */
		sp = (u64 *)(cpu->kstacks + i * cpu->kstack_stride + cpu->kstack_size);
		*--sp = 0;
		*--sp = (u64)cpu_task_start;
		sp -= 6;
		t->sp = (u64)sp;
		t->flags = TF_KTHREAD;
		t->name = name;
		t->fn = fn;
		t->arg = arg;
		t->section_depth = 0;
		t->section_time = 0;
		t->vruntime = cpu->current_task->vruntime;
		t->slice_start = t->vruntime;
		t->state = TASK_RUNNING;
		return t;
	}
	return NULL;
}
