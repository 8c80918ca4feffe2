// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Which task runs: the one that has run least, for a slice, until it sleeps or, under
 * full preemption, until its slice is over wherever it is.
 */
#include <kiln/cpu.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>

#include "cpu_internal.h"

bool need_resched(void)
{
	return !(this_cpu_read(preempt_count) & PREEMPT_NEED_RESCHED);
}

static void set_need_resched(void)
{
	__asm__ volatile("andl %0, %%gs:%c1"
			 :
			 : "i"(~PREEMPT_NEED_RESCHED),
			   "i"(__builtin_offsetof(struct cpu, preempt_count))
			 : "memory", "cc");
}

static void clear_need_resched(void)
{
	__asm__ volatile("orl %0, %%gs:%c1"
			 :
			 : "i"(PREEMPT_NEED_RESCHED),
			   "i"(__builtin_offsetof(struct cpu, preempt_count))
			 : "memory", "cc");
}

void enqueue(struct cpu *cpu, struct task *t)
{
	t->next = NULL;
	t->prev = cpu->runnable_end;
	*cpu->runnable_end = t;
	cpu->runnable_end = &t->next;
	t->queued = true;
}

static void dequeue(struct cpu *cpu, struct task *t)
{
	*t->prev = t->next;
	if (t->next)
		t->next->prev = t->prev;
	else
		cpu->runnable_end = t->prev;
	t->queued = false;
}

/* The runnable task with the least run time; the current one among equals. */
static struct task *pick(struct cpu *cpu)
{
	struct task *best = cpu->current_task->queued ? cpu->current_task : NULL;
	struct task *t;

	for (t = cpu->runnable; t; t = t->next)
		if (!best || t->vruntime < best->vruntime)
			best = t;
	return best;
}

static void account(struct cpu *cpu)
{
	const u64 now = rdtsc();

	cpu->current_task->vruntime += now - cpu->current_task->since;
	cpu->current_task->since = now;
}

/*
 * A section goes with its task: what others run meanwhile is not its time, and it did
 * not pass undisturbed.
 */
static void section_switch(struct cpu *cpu, struct task *prev, struct task *next)
{
	const u64 now = rdtsc();
	const u64 since = cpu->section_start[0];

	prev->section_depth = cpu->section_depth;
	prev->section_time = since ? now - since : 0;
	cpu->section_depth = next->section_depth;
	cpu->section_start[0] = next->section_time ? now - next->section_time : 0;
	cpu->section_irqs[0] = cpu->irqs_seen - 1;
}

/* Nothing can run: only an interrupt or another CPU can change that. */
static struct task *idle(struct cpu *cpu)
{
	const u64 since = rdtsc();
	struct task *next;

	do {
		local_irq_enable();
		if (cpu->hooks && cpu->hooks->idle)
			cpu->hooks->idle(rdtsc() - since);
		__asm__ volatile("pause");
		local_irq_disable();
		wakes_of_others(cpu);
	} while (!(next = pick(cpu)));
	return next;
}

/* Interrupts are off, and preemption once. */
static void switch_task(struct cpu *cpu, bool preempted)
{
	struct task *prev = cpu->current_task, *next;
	u64 start;

	account(cpu);
	clear_need_resched();
	if (unlikely(cpu->remote))
		wakes_of_others(cpu);
	/* Who is about to sleep and is preempted has not decided yet. */
	if (prev->state == TASK_FREE || (prev->state == TASK_SLEEPING && !preempted))
		dequeue(cpu, prev);
	next = pick(cpu);
	if (!next)
		next = idle(cpu);
	if (next == prev)
		return;

	start = rdtsc();
	cpu->stats.switches++;
	cpu->stats.preemptions += preempted;
	fpu_switch(prev, next);
	section_switch(cpu, prev, next);
	/* A switch is cheaper here than in a kernel: charge the difference. */
	while (rdtsc() - start < cpu->switch_cost)
		__asm__ volatile("pause");
	next->since = rdtsc();
	next->slice_start = next->vruntime;
	cpu->current_task = next;
	cpu->foreign = next->foreign;
	cpu_switch(&prev->sp, next->sp);
}

void schedule(void)
{
	struct cpu *cpu = this_cpu();
	const bool off = this_cpu_read(irqs_off);

	WARN_ON(in_atomic());
	local_irq_disable();
	preempt_count_add(PREEMPT_OFFSET);
	switch_task(cpu, false);
	preempt_enable_no_resched();
	if (!off)
		local_irq_enable();
}

/* Let whoever else can run do so first. */
void yield(void)
{
	struct cpu *cpu = this_cpu();
	u64 latest = cpu->current_task->vruntime;
	const bool off = local_irq_save();
	const struct task *t;

	account(cpu);
	for (t = cpu->runnable; t; t = t->next)
		if (t->vruntime > latest)
			latest = t->vruntime;
	local_irq_restore(off);
	cpu->current_task->vruntime = latest + 1;
	schedule();
}

bool cond_resched(void)
{
	if (!need_resched() || in_atomic())
		return false;
	schedule();
	return true;
}

/* Interrupts are off: on the way out of one. */
void preempt_schedule_irq(void)
{
	while (this_cpu_read(preempt_count) == 0) {
		preempt_count_add(PREEMPT_OFFSET);
		switch_task(this_cpu(), true);
		preempt_enable_no_resched();
	}
}

/* The last preempt_enable() found a reschedule wanted. */
void preempt_schedule(void)
{
	if (!this_cpu_read(preempt_full) || this_cpu_read(irqs_off))
		return;
	local_irq_disable();
	preempt_schedule_irq();
	local_irq_enable();
}

/*
 * A task that slept starts where the others are, so that it neither waits for what it
 * missed nor makes up for it. It does not preempt, the next tick decides; unless it is
 * urgent.
 */
void wake_up(struct task *task)
{
	struct cpu *cpu = this_cpu();
	const u64 floor = cpu->current_task->vruntime;
	bool off;

	if (task->state != TASK_SLEEPING)
		return;
	off = local_irq_save();
	if (task->state == TASK_SLEEPING) {
		if (task->vruntime < floor)
			task->vruntime = floor;
		task->state = TASK_RUNNING;
		if (!task->queued)
			enqueue(cpu, task);
		if (task->urgent)
			set_need_resched();
	}
	local_irq_restore(off);
}

void sched_tick(struct cpu *cpu)
{
	struct task *curr = cpu->current_task;

	cpu->next_tick = cpu->irq_time + cpu->tick;
	if (cpu->hooks && cpu->hooks->tick)
		cpu->hooks->tick();
	account(cpu);
	if (curr->vruntime - curr->slice_start < cpu->slice)
		return;
	curr->slice_start = curr->vruntime;
	if (pick(cpu) != curr)
		set_need_resched();
}
