// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Memory from the host becomes a CPU.
 */
#include <kiln/cpu.h>
#include <kiln/cpu_offsets.h>
#include <kiln/crypto.h>
#include <kiln/fpu.h>
#include <kiln/kiln.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>
#include <kiln/string.h>

#include "cpu_internal.h"

/* What assembly knows by number. */
#define LIES_AT(field, offset) \
	_Static_assert(__builtin_offsetof(struct cpu, field) == (offset), "")
LIES_AT(foreign, KILN_CPU_FOREIGN);
LIES_AT(preempt_count, KILN_CPU_PREEMPT_COUNT);
LIES_AT(number, KILN_CPU_NUMBER);
LIES_AT(softirq_pending, KILN_CPU_SOFTIRQ_PENDING);
LIES_AT(irqs_off, KILN_CPU_IRQS_OFF);
LIES_AT(irq_pending, KILN_CPU_IRQ_PENDING);
LIES_AT(kernel_mode, KILN_CPU_KERNEL_MODE);
LIES_AT(injecting, KILN_CPU_INJECTING);
LIES_AT(section_depth, KILN_CPU_SECTION_DEPTH);
LIES_AT(section_skip, KILN_CPU_SECTION_SKIP);
LIES_AT(section_start, KILN_CPU_SECTION_START);
LIES_AT(stats.sections, KILN_CPU_SECTIONS);

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
	cpu->slice = config->slice_us * config->ticks_per_us;
	cpu->switch_cost = config->switch_ns * config->ticks_per_us / 1000;
	cpu->preempt_full = config->preempt_full;
}

void kiln_cpu_start(void)
{
	ksoftirqd_start();
	kworker_start();
	cryptd_start();
}

void kiln_cpu_stop(struct cpu *cpu)
{
	wait_none(cpu);
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
	/* What the next section stands for is not what was before. */
	cpu->section_skip = 0;
	cpu->section_weight = 1;
}

void kiln_cpu_share_area(struct cpu *cpu, struct cpu *owner)
{
	cpu->nested_area = &owner->nested_fpu;
}
