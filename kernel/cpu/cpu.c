// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Initialises an emulated CPU in memory that the host provides.
 */
#include <kiln/abi/cpu.h>
#include <kiln/abi/hosted.h>
#include <kiln/cpu.h>
#include <kiln/cpu_offsets.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>
#include <kiln/string.h>

#include "cpu_internal.h"

/* Check the offsets that assembly and inline assembly use. */
#define ASSERT_OFFSET(field, offset) \
	_Static_assert(__builtin_offsetof(struct cpu, field) == (offset), "")
ASSERT_OFFSET(foreign, KILN_CPU_FOREIGN);
ASSERT_OFFSET(preempt_count, KILN_CPU_PREEMPT_COUNT);
ASSERT_OFFSET(number, KILN_CPU_NUMBER);
ASSERT_OFFSET(softirq_pending, KILN_CPU_SOFTIRQ_PENDING);
ASSERT_OFFSET(irqs_off, KILN_CPU_IRQS_OFF);
ASSERT_OFFSET(irq_pending, KILN_CPU_IRQ_PENDING);
ASSERT_OFFSET(kernel_mode, KILN_CPU_KERNEL_MODE);
ASSERT_OFFSET(injecting, KILN_CPU_INJECTING);
ASSERT_OFFSET(section_depth, KILN_CPU_SECTION_DEPTH);
ASSERT_OFFSET(section_skip, KILN_CPU_SECTION_SKIP);
ASSERT_OFFSET(section_start, KILN_CPU_SECTION_START);
ASSERT_OFFSET(stats.sections, KILN_CPU_SECTIONS);

size_t kiln_cpu_size(void)
{
	return sizeof(struct cpu);
}

size_t kiln_task_size(void)
{
	return sizeof(struct task);
}

static u64 no_witness;

void kiln_cpu_init(struct cpu *cpu, const struct kiln_cpu_config *config)
{
	struct task *boot = config->tasks;

	memset(cpu, 0, sizeof(*cpu));
	cpu->self = cpu;
	cpu->number = config->number;
	cpu->preempt_count = PREEMPT_NEED_RESCHED;
	cpu->section_weight = 1;
	cpu->section_into = &cpu->section_time;
	cpu->section_limit = ~0ull;
	cpu->section_max_skip = SECTION_MAX_SKIP;
	cpu->witness = config->witness ? config->witness : &no_witness;
	cpu->witness_armed = config->witness_armed;
	cpu->task = config->tasks;
	cpu->nr_tasks = config->nr_tasks;
	cpu->kstacks = config->kstacks;
	cpu->kstack_size = config->kstack_size;
	cpu->kstack_stride = config->kstack_stride;
	cpu->runnable_end = &cpu->runnable;
	kiln_cpu_configure(cpu, config);

	fpstate_init(&cpu->nested_fpu);
	cpu->nested_area = &cpu->nested_fpu;
	task_init(cpu, boot, "user");
	fpstate_init(&boot->user_fpu);
	boot->state = TASK_RUNNING;
	boot->since = rdtsc();
	enqueue(cpu, boot);
	cpu->current_task = boot;
}

void kiln_cpu_configure(struct cpu *cpu, const struct kiln_cpu_config *config)
{
	cpu->ticks_per_us = config->ticks_per_us;
	cpu->tick = config->tick_us * config->ticks_per_us;
	cpu->next_tick = rdtsc() + cpu->tick;
	cpu->scheduler = config->scheduler;
	cpu->slice = config->slice_us * config->ticks_per_us;
	cpu->latency = config->latency_us * config->ticks_per_us;
	cpu->wakeup_granularity = config->wakeup_us * config->ticks_per_us;
	cpu->switch_cost = config->switch_ns * config->ticks_per_us / 1000;
	cpu->preempt_full = config->preempt_full;
}

void kiln_cpu_start(void)
{
	ksoftirqd_start();
	kworker_start();
}

void kiln_cpu_stop(struct cpu *cpu)
{
	remove_waiters(cpu);
}

void kiln_cpu_wipe_registers(struct cpu *cpu)
{
	fpstate_init(&cpu->current_task->user_fpu);
}

struct cpu_stats *kiln_cpu_stats(struct cpu *cpu)
{
	return &cpu->stats;
}

struct histogram *kiln_cpu_histogram(struct cpu *cpu, u32 which)
{
	switch (which) {
	case KILN_HISTOGRAM_SECTION:
		return &cpu->section_time;
	case KILN_HISTOGRAM_SOFTIRQ_LATENCY:
		return &cpu->softirq_latency;
	default:
		return NULL;
	}
}

void kiln_cpu_reset_stats(struct cpu *cpu)
{
	memset(&cpu->stats, 0, sizeof(cpu->stats));
	memset(&cpu->section_time, 0, sizeof(cpu->section_time));
	memset(&cpu->softirq_latency, 0, sizeof(cpu->softirq_latency));
	/*
	 * Time the next section. Count it only once in the histogram, because no section was
	 * skipped before it.
	 */
	cpu->section_skip = 0;
	cpu->section_weight = 1;
}

void kiln_cpu_keep_sections(struct cpu *cpu, u64 *least, size_t room)
{
	cpu->section_max_skip = 0;
	cpu->section_skip = 0;
	cpu->section_weight = 1;
	cpu->section_limit = 0;
	cpu->section_least = least;
	cpu->section_room = room;
}

void kiln_cpu_share_area(struct cpu *cpu, struct cpu *owner)
{
	cpu->nested_area = &owner->nested_fpu;
}
