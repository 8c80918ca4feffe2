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
_Static_assert(__builtin_offsetof(struct cpu, irqs_off) == KILN_CPU_IRQS_OFF, "");
_Static_assert(__builtin_offsetof(struct cpu, irq_pending) == KILN_CPU_IRQ_PENDING, "");
_Static_assert(__builtin_offsetof(struct cpu, kernel_mode) == KILN_CPU_KERNEL_MODE, "");
_Static_assert(__builtin_offsetof(struct cpu, injecting) == KILN_CPU_INJECTING, "");

size_t kiln_cpu_size(void)
{
	return sizeof(struct cpu);
}

size_t kiln_cpu_tasks(void)
{
	return NR_TASKS;
}

static u64 no_witness;

void kiln_cpu_init(struct cpu *cpu, const struct kiln_cpu_config *config)
{
	struct task *boot = &cpu->task[0];
	size_t i;

	memset(cpu, 0, sizeof(*cpu));
	cpu->self = cpu;
	cpu->number = config->number;
	cpu->preempt_count = PREEMPT_NEED_RESCHED;
	cpu->section_weight = 1;
	cpu->witness = config->witness ? config->witness : &no_witness;
	cpu->witness_armed = config->witness_armed;
	cpu->kstacks = config->kstacks;
	cpu->kstack_size = config->kstack_size;
	cpu->kstack_stride = config->kstack_stride;
	kiln_cpu_configure(cpu, config);

	for (i = 0; i < NR_TASKS; i++) {
		fpstate_init(&cpu->task[i].user_fpu);
		fpstate_init(&cpu->task[i].kernel_fpu);
	}
	fpstate_init(&cpu->nested_fpu);
	cpu->nested_area = &cpu->nested_fpu;
	boot->name = "user";
	boot->state = TASK_RUNNING;
	boot->since = rdtsc();
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
