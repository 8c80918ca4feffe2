// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Tests how much time the scheduler charges to a task. Replaces the TSC with a variable. */
#define FAKE_TSC
#include "program.h"

#include "cpu/irq.c"
#include "cpu/sched.c"

enum { TICK = 1000, SLICE = 3000, LATENCY = 6000, LONG = 100000 };

static const u32 schedulers[] = { KILN_CFS_6_1, KILN_EEVDF_6_12, KILN_EEVDF_7_3 };

/*
 * Boots a CPU that has one task and has just switched to it. The next scheduler tick occurs after
 * TICK TSC ticks.
 */
static struct cpu *boot(u32 scheduler)
{
	const struct kiln_cpu_config config = {
		.ticks_per_us = 1, .scheduler = scheduler, .tick_us = TICK, .slice_us = SLICE,
		.latency_us = LATENCY, .wakeup_us = TICK,
	};
	struct cpu *cpu = boot_cpu(&config);

	tsc = 1ull << 40;
	cpu->kernel_mode = 1;
	cpu->next_tick = tsc + TICK;
	cpu->last_irq = tsc;
	current->since = tsc;
	return cpu;
}

static void interrupt_after(u64 ticks)
{
	tsc += ticks;
	local_irq_disable();
	irq_entry(false);
	local_irq_enable();
}

static void charged(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(schedulers); i++) {
		u64 before;

		boot(schedulers[i]);
		before = current->vruntime;
		interrupt_after(LONG);
		CHECK(current->vruntime - before == LONG, "%llu ticks",
		      (unsigned long long)(current->vruntime - before));
	}
}

/*
 * Called in the idle loop. Wakes the task after a long time, and then injects a scheduler tick
 * before the loop finds that the task is runnable.
 */
static void wake_up_idle(unsigned long since)
{
	(void)since;
	tsc += LONG;
	wake_up(current);
	interrupt_after(0);
}

static const struct kiln_hooks idle_hooks = { .idle = wake_up_idle };

static void sleep_on_idle_cpu(struct cpu *cpu)
{
	cpu->hooks = &idle_hooks;
	current->state = TASK_SLEEPING;
	schedule();
	cpu->hooks = NULL;
}

static void idle_time(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(schedulers); i++) {
		struct cpu *cpu = boot(schedulers[i]);
		const u64 before = current->vruntime;

		tsc += 10;
		sleep_on_idle_cpu(cpu);
		tsc += 20;
		account(cpu, false);
		CHECK(current->vruntime - before == 30, "scheduler %u: %llu ticks", schedulers[i],
		      (unsigned long long)(current->vruntime - before));
	}
}

static void slice(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(schedulers); i++) {
		struct cpu *cpu = boot(schedulers[i]);

		tsc += SLICE - 1;
		sleep_on_idle_cpu(cpu);
		CHECK(current->slice_start == current->vruntime, "scheduler %u", schedulers[i]);
		CHECK(current->protect == current->deadline, "scheduler %u", schedulers[i]);
		/* Control: a task that calls schedule() without sleeping keeps its slice. */
		tsc += 10;
		schedule();
		CHECK(current->slice_start + 10 == current->vruntime, "scheduler %u", schedulers[i]);
	}
}

/*
 * Returns how much time a task is charged for a gap of @gap TSC ticks between two interrupts. The
 * second interrupt is also a scheduler tick.
 */
static u64 charge_for_gap(u64 limit, u64 gap)
{
	struct cpu *cpu = boot(KILN_EEVDF_7_3);
	u64 before;

	cpu->steal_limit = limit;
	/* The first interrupt occurs 300 TSC ticks after the task was last charged. */
	interrupt_after(300);
	CHECK(current->vruntime == 0, "the first interrupt is not a tick");
	before = current->vruntime;
	cpu->next_tick = 0;
	interrupt_after(gap);
	return current->vruntime - before;
}

static void stolen(void)
{
	u64 ticks = charge_for_gap(700, LONG);

	CHECK(ticks == 300, "%llu ticks", (unsigned long long)ticks);
	/*
	 * If a task switch occurs during the gap, the scheduler must not subtract more stolen time
	 * than it would charge to the current task.
	 */
	{
		struct cpu *cpu = boot(KILN_EEVDF_7_3);

		cpu->steal_limit = 700;
		tsc += LONG - 5;
		current->since = tsc;
		interrupt_after(5);
		CHECK(current->vruntime == 0, "%llu ticks", (unsigned long long)current->vruntime);
		interrupt_after(7);
		account(cpu, false);
		CHECK(current->vruntime == 7, "%llu ticks", (unsigned long long)current->vruntime);
	}
}

static void no_gap(void)
{
	u64 ticks = charge_for_gap(700, 700);

	CHECK(ticks == 1000, "%llu ticks", (unsigned long long)ticks);
}

static void no_limit(void)
{
	u64 ticks = charge_for_gap(0, LONG);

	CHECK(ticks == LONG + 300, "%llu ticks", (unsigned long long)ticks);
}

/* A task that yields must run after all others, even if a vruntime has wrapped around. */
static void yields(void)
{
	static const struct { u64 own, other; } at[] = {
		{ 100, 50 }, { 50, 100 }, { -100ull, 50 }, { 50, -100ull },
	};
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(schedulers); i++) {
		for (j = 0; j < ARRAY_SIZE(at); j++) {
			struct cpu *cpu = boot(schedulers[i]);
			struct task other = { .cpu = cpu, .vruntime = at[j].other };

			current->vruntime = at[j].own;
			enqueue(cpu, &other);
			fall_behind(cpu);
			CHECK(pick(cpu) == &other, "scheduler %u, case %zu", schedulers[i], j);
		}
	}
}

static const struct test_case cases[] = {
	{ "charged", charged }, { "idle", idle_time }, { "slice", slice },
	{ "stolen", stolen }, { "no_gap", no_gap }, { "no_limit", no_limit }, { "yields", yields },
};

int main(int argc, char **argv)
{
	return run_case(cases, ARRAY_SIZE(cases), argc, argv);
}
