// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Picks the next task as the fair class of a given kernel version does, for tasks with nice 0 on
 * one run queue. Times are TSC ticks.
 *
 * KILN_CFS_6_1 (kernel/sched/fair.c of 6.1): the task with the least vruntime runs. The tasks share
 * the latency period, and the tick checks whether a slice has expired. A woken task is placed at
 * most half a period behind min_vruntime, and preempts the current task if it is behind that task
 * by more than the wakeup granularity. Buddies are not modelled: with three tasks they do not
 * change the choice.
 *
 * KILN_EEVDF_6_12 and KILN_EEVDF_7_3: a task is eligible if it has not run for more than its share;
 * of the eligible tasks, the one with the earliest virtual deadline runs. A task that goes to sleep
 * keeps its lag and is placed according to that lag when it wakes up. A task that is not eligible
 * when it goes to sleep stays queued (delayed dequeue) until it becomes eligible, and then leaves
 * the queue with zero lag. The running task keeps the CPU until its slice ends (RUN_TO_PARITY) as
 * long as it is eligible, so a woken task preempts immediately only if it has lag. A slice that
 * expires requests a reschedule. If the task continues anyway, 7.3 repeats the request at the next
 * check; 6.12 does so only if the task has become ineligible. 7.3 also reschedules lazily: the task
 * continues until it calls cond_resched() or until the next tick.
 */
#include <kiln/abi/cpu.h>
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
	this_cpu_op("andl", "i", ~PREEMPT_NEED_RESCHED, preempt_count);
}

static void clear_need_resched(void)
{
	this_cpu_op("orl", "i", PREEMPT_NEED_RESCHED, preempt_count);
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

static bool is_eevdf(const struct cpu *cpu)
{
	return cpu->scheduler != KILN_CFS_6_1;
}

/* Subtracts the vruntime of @t from that of each queued task, and returns the sum. */
static s64 sum_ahead(const struct cpu *cpu, const struct task *t)
{
	const struct task *other;
	s64 sum = 0;

	for (other = cpu->runnable; other; other = other->next)
		sum += (s64)(other->vruntime - t->vruntime);
	return sum;
}

static u32 count_queued(const struct cpu *cpu)
{
	const struct task *t;
	u32 n = 0;

	for (t = cpu->runnable; t; t = t->next)
		n++;
	return n;
}

/* Returns whether the vruntime of @t is at most the average vruntime of the queued tasks. */
static bool is_eligible(const struct cpu *cpu, const struct task *t)
{
	return sum_ahead(cpu, t) >= 0;
}

static bool is_before(const struct task *a, const struct task *b)
{
	return (s64)(a->deadline - b->deadline) < 0;
}

/*
 * Returns whether the slice of @t is protected. 6.12 protects a slice until the deadline changes;
 * 7.3 protects it up to a point in virtual time.
 */
static bool is_protected(const struct cpu *cpu, const struct task *t)
{
	if (cpu->scheduler == KILN_EEVDF_6_12)
		return t->protect == t->deadline;
	return (s64)(t->vruntime - t->protect) < 0;
}

static struct task *pick_cfs(struct cpu *cpu)
{
	struct task *best = cpu->current_task->queued ? cpu->current_task : NULL;
	struct task *t;

	for (t = cpu->runnable; t; t = t->next)
		if (!best || (s64)(t->vruntime - best->vruntime) < 0)
			best = t;
	return best;
}

static struct task *pick_eevdf(struct cpu *cpu)
{
	struct task *curr = cpu->current_task, *best = NULL, *t;

	if (!cpu->runnable || !cpu->runnable->next)
		return cpu->runnable;
	if (!curr->queued || !is_eligible(cpu, curr))
		curr = NULL;
	if (curr && is_protected(cpu, curr))
		return curr;
	for (t = cpu->runnable; t; t = t->next)
		if (t != curr && is_eligible(cpu, t) && (!best || is_before(t, best)))
			best = t;
	if (!best || (curr && is_before(curr, best)))
		best = curr;
	return best;
}

/*
 * Returns the lag that @t keeps while it sleeps: the clamped distance of its vruntime from the
 * average.
 */
static s64 lag_of(const struct cpu *cpu, const struct task *t)
{
	const s64 lag = sum_ahead(cpu, t) / (s64)count_queued(cpu);
	s64 limit = cpu->slice + cpu->tick;

	if (cpu->scheduler == KILN_EEVDF_6_12)
		limit = 2 * cpu->slice > cpu->tick ? 2 * cpu->slice : cpu->tick;
	return lag > limit ? limit : lag < -limit ? -limit : lag;
}

/* Sets the vruntime and deadline of a task that is about to be queued. */
static void place(struct cpu *cpu, struct task *t)
{
	const u32 n = count_queued(cpu);
	u64 base = cpu->current_task->vruntime;

	if (!is_eevdf(cpu)) {
		const u64 floor = cpu->min_vruntime - cpu->latency / 2;

		if ((s64)(t->vruntime - floor) < 0)
			t->vruntime = floor;
		return;
	}
	if (n) {
		/* Queueing the task moves the average towards it. Scale the lag to compensate. */
		base = cpu->runnable->vruntime + sum_ahead(cpu, cpu->runnable) / (s64)n;
		base -= t->lag + t->lag / (s64)n;
	}
	t->vruntime = base;
	t->deadline = base + cpu->slice;
}

/*
 * Completes a delayed dequeue. The sleeping task has become eligible, so it leaves the queue with
 * zero lag.
 */
static void finish_dequeue(struct task *t)
{
	dequeue(t->cpu, t);
	t->delayed = false;
	t->lag = 0;
}

static struct task *pick(struct cpu *cpu)
{
	struct task *t;

	if (!is_eevdf(cpu))
		return pick_cfs(cpu);
	while ((t = pick_eevdf(cpu)) && t->delayed)
		finish_dequeue(t);
	return t;
}

/* Dequeues the current task, which goes to sleep or exits. */
static void leave(struct cpu *cpu, struct task *t)
{
	if (is_eevdf(cpu) && t->state == TASK_SLEEPING) {
		if (!is_eligible(cpu, t)) {
			t->delayed = true;
			return;
		}
		t->lag = lag_of(cpu, t);
	}
	dequeue(cpu, t);
}

/* Requests a reschedule. 7.3 without full preemption reschedules lazily. */
static void want_resched(struct cpu *cpu)
{
	if (cpu->scheduler == KILN_EEVDF_7_3 && !cpu->preempt_full)
		cpu->resched_lazy = true;
	else
		set_need_resched();
}

static bool others_wait(const struct cpu *cpu)
{
	const struct task *t;

	for (t = cpu->runnable; t; t = t->next)
		if (t != cpu->current_task && !t->delayed)
			return true;
	return false;
}

/*
 * Charges the current task for the time since the last call. With @check_slice, requests a
 * reschedule if the task's slice is over.
 */
static void account(struct cpu *cpu, bool check_slice)
{
	struct task *curr = cpu->current_task, *t;
	const u64 now = rdtsc();
	bool over = false;
	u64 least;

	/*
	 * In the idle loop, the last task that went to sleep is current but not queued. Do not
	 * charge it.
	 */
	if (curr->queued)
		curr->vruntime += now - curr->since;
	curr->since = now;
	if (!is_eevdf(cpu)) {
		least = curr->vruntime;
		for (t = cpu->runnable; t; t = t->next)
			if ((s64)(t->vruntime - least) < 0)
				least = t->vruntime;
		if ((s64)(least - cpu->min_vruntime) > 0)
			cpu->min_vruntime = least;
		return;
	}
	if ((s64)(curr->vruntime - curr->deadline) >= 0) {
		curr->deadline = curr->vruntime + cpu->slice;
		over = true;
	}
	if (!check_slice || !others_wait(cpu))
		return;
	if (over || (!is_protected(cpu, curr) &&
		     (cpu->scheduler == KILN_EEVDF_7_3 || !is_eligible(cpu, curr))))
		want_resched(cpu);
}

/*
 * Moves the section timer's state from one task to the next. Time during which a task is switched
 * out does not count towards its section, but the section counts as interrupted.
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

/* Waits until an interrupt or another CPU makes a task runnable. */
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

static void start_slice(struct task *t)
{
	t->since = rdtsc();
	t->slice_start = t->vruntime;
	t->protect = t->deadline;
}

/* Called with interrupts off and a preempt count of one. */
static void switch_task(struct cpu *cpu, bool preempted)
{
	struct task *prev = cpu->current_task, *next;
	u64 start;

	account(cpu, false);
	clear_need_resched();
	cpu->resched_lazy = false;
	if (unlikely(cpu->remote))
		wakes_of_others(cpu);
	/* A task preempted on its way to sleep stays queued: it must check its condition again. */
	if (prev->state == TASK_FREE || (prev->state == TASK_SLEEPING && !preempted))
		leave(cpu, prev);
	next = pick(cpu);
	if (!next) {
		next = idle(cpu);
		start_slice(next);
	}
	if (next == prev)
		return;

	start = rdtsc();
	cpu->stats.switches++;
	cpu->stats.preemptions += preempted;
	fpu_switch(prev, next);
	section_switch(cpu, prev, next);
	/* A task switch takes less time here than in a kernel. Spin for the difference. */
	while (rdtsc() - start < cpu->switch_cost)
		__asm__ volatile("pause");
	start_slice(next);
	cpu->current_task = next;
	cpu->foreign = next->foreign;
	cpu_switch(&prev->sp, next->sp);
}

void schedule(void)
{
	struct cpu *cpu = this_cpu();
	const bool off = local_irq_save();

	WARN_ON(in_atomic());
	preempt_count_add(PREEMPT_OFFSET);
	switch_task(cpu, false);
	preempt_enable_no_resched();
	local_irq_restore(off);
}

/*
 * Moves the current task behind all others. vruntimes wrap around, so only their differences are
 * compared.
 */
static void fall_behind(struct cpu *cpu)
{
	struct task *curr = cpu->current_task;
	u64 latest = curr->vruntime;
	const struct task *t;

	for (t = cpu->runnable; t; t = t->next)
		if ((s64)(t->vruntime - latest) > 0)
			latest = t->vruntime;
	curr->vruntime = latest + 1;
}

/*
 * Lets every other runnable task run first. Workloads rely on this guarantee, which the yield() of
 * a real kernel does not give.
 */
void yield(void)
{
	struct cpu *cpu = this_cpu();
	const bool off = local_irq_save();

	account(cpu, false);
	fall_behind(cpu);
	local_irq_restore(off);
	schedule();
}

bool cond_resched(void)
{
	if ((!need_resched() && !this_cpu_read(resched_lazy)) || in_atomic())
		return false;
	schedule();
	return true;
}

/* Called with interrupts off, at the end of an interrupt. */
void preempt_schedule_irq(void)
{
	while (this_cpu_read(preempt_count) == 0) {
		preempt_count_add(PREEMPT_OFFSET);
		switch_task(this_cpu(), true);
		preempt_enable_no_resched();
	}
}

/* Called by the outermost preempt_enable() if a reschedule was requested. */
void preempt_schedule(void)
{
	if (!this_cpu_read(preempt_full) || this_cpu_read(irqs_off))
		return;
	local_irq_disable();
	preempt_schedule_irq();
	local_irq_enable();
}

/* Returns whether @t, which has just been woken, preempts the current task. */
static bool preempts(struct cpu *cpu, struct task *t)
{
	struct task *curr = cpu->current_task;

	if (!is_eevdf(cpu))
		return (s64)(curr->vruntime - t->vruntime) > (s64)cpu->wakeup_granularity;
	return pick_eevdf(cpu) == t;
}

static void wake_up_queued(struct cpu *cpu, struct task *t)
{
	if (t->delayed) {
		/* Discard positive lag that the task has gained since it went to sleep. */
		t->delayed = false;
		if (sum_ahead(cpu, t) > 0) {
			dequeue(cpu, t);
			t->lag = 0;
		}
	}
	if (!t->queued) {
		place(cpu, t);
		enqueue(cpu, t);
	}
	if (t->urgent) {
		/* Make the task eligible, with the earliest deadline. */
		t->vruntime = cpu->current_task->vruntime - cpu->slice - 1;
		t->deadline = t->vruntime;
		cpu->current_task->protect = cpu->current_task->vruntime;
	}
}

/*
 * Wakes up a task of this CPU. Only a wakeup from an interrupt preempts the current task. A
 * workload may wake a task before the timer is started. If that task preempted the current one, it
 * would keep the CPU forever, because no ticks occur yet.
 */
void wake_up(struct task *task)
{
	struct cpu *cpu = this_cpu();
	bool off;

	if (task->state != TASK_SLEEPING)
		return;
	off = local_irq_save();
	if (task->state == TASK_SLEEPING) {
		task->state = TASK_RUNNING;
		if (task != cpu->current_task) {
			account(cpu, in_interrupt());
			/*
			 * account() has charged the current task before the woken task is placed,
			 * so a woken task without lag does not preempt.
			 */
			wake_up_queued(cpu, task);
			if (task->urgent)
				set_need_resched();
			else if (in_interrupt() && preempts(cpu, task))
				want_resched(cpu);
		} else if (!task->queued) {
			/*
			 * The current task went to sleep and runs the idle loop in switch_task().
			 * Account now, so that the task is charged from here on but not for the
			 * time in the idle loop.
			 */
			account(cpu, false);
			place(cpu, task);
			enqueue(cpu, task);
		} else {
			task->delayed = false;
		}
	}
	local_irq_restore(off);
}

static void cfs_tick(struct cpu *cpu, const struct task *curr)
{
	const u64 ran = curr->vruntime - curr->slice_start;
	const u32 n = count_queued(cpu);
	u64 slice = n > KILN_CFS_LATENCY_TASKS ? cpu->slice : cpu->latency / (n ? n : 1);
	const struct task *t;

	if (n < 2)
		return;
	if (slice < cpu->slice)
		slice = cpu->slice;
	if (ran > slice)
		set_need_resched();
	if (ran < cpu->slice)
		return;
	for (t = cpu->runnable; t; t = t->next)
		if ((s64)(curr->vruntime - t->vruntime) > (s64)slice)
			set_need_resched();
}

/*
 * Treats a gap between interrupts that exceeds the limit as time in which the host ran other
 * threads. The current task is not charged for that time.
 */
void forgive_steal(struct cpu *cpu)
{
	struct task *curr = cpu->current_task;
	const u64 gap = cpu->irq_time - cpu->last_irq;

	if (gap > cpu->steal_limit) {
		curr->since += gap;
		if ((s64)(curr->since - cpu->irq_time) > 0)
			curr->since = cpu->irq_time;
	}
	cpu->last_irq = cpu->irq_time;
}

void sched_tick(struct cpu *cpu)
{
	/* Ticks are periodic. Skip the missed ones. */
	cpu->next_tick += cpu->tick;
	if (cpu->next_tick <= cpu->irq_time)
		cpu->next_tick = cpu->irq_time + cpu->tick;
	if (cpu->hooks && cpu->hooks->tick)
		cpu->hooks->tick();
	if (cpu->resched_lazy)
		set_need_resched();
	account(cpu, true);
	if (!is_eevdf(cpu))
		cfs_tick(cpu, cpu->current_task);
}
