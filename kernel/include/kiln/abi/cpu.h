/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The host's interface to cpu/, fpu/ and lib/slab.c: emulated CPUs, FPU policies, tiers, and
 * memory.
 */
#ifndef KILN_ABI_CPU_H
#define KILN_ABI_CPU_H

#include <kiln/cpu_offsets.h>
#include <kiln/histogram.h>
#include <kiln/types.h>

struct cpu;
struct task;

/* The kernel version whose scheduler cpu/sched.c emulates. */
enum kiln_scheduler { KILN_CFS_6_1, KILN_EEVDF_6_12, KILN_EEVDF_7_3 };
/* Maximum number of tasks that share one CFS period. */
enum { KILN_CFS_LATENCY_TASKS = 8 };

/* Configuration of an emulated CPU, and the memory that it uses. */
struct kiln_cpu_config {
	u32 number;
	bool preempt_full;	/* full preemption; otherwise voluntary */
	u64 ticks_per_us;	/* frequency of the TSC in MHz */
	u32 scheduler;		/* enum kiln_scheduler */
	u64 tick_us;
	u64 slice_us;		/* EEVDF: base slice; CFS: minimal granularity */
	u64 latency_us;		/* CFS: period that the tasks share */
	u64 wakeup_us;		/* CFS: vruntime lead that a woken task needs to preempt */
	u64 switch_ns;		/* duration of each task switch */
	struct task *tasks;	/* zeroed, aligned to 64, kiln_task_size() bytes each */
	u32 nr_tasks;
	u8 *kstacks;		/* nr_tasks stacks; points to the lowest address */
	u64 kstack_size, kstack_stride;
	/*
	 * A word that the host's kernel overwrites when it preempts this thread (rseq_cs), and the
	 * value to write to that word when a section starts. NULL if the host has no such word.
	 */
	volatile u64 *witness;
	u64 witness_armed;
};

enum { KILN_HISTOGRAM_SECTION, KILN_HISTOGRAM_SOFTIRQ_LATENCY };

/* Event counts of one CPU; counting is always on. */
struct cpu_stats {
	u64 irqs;		/* hardirqs taken */
	u64 irqs_user;		/* hardirqs that interrupted user mode */
	u64 irqs_in_section;	/* hardirqs that interrupted a section */
	u64 softirqs;		/* softirq handlers that have run */
	u64 softirqs_deferred;	/* number of times ksoftirqd took over remaining softirqs */
	u64 sections;
	u64 sections_timed;	/* sections that were timed, a sample of all sections */
	u64 sections_interrupted;	/* timed sections during which an interrupt arrived */
	u64 sections_stolen;	/* other timed sections during which the host preempted the CPU */
	u64 user_saves, user_restores;
	u64 nested_saves;
	u64 task_saves;		/* task switches that saved the registers of a section */
	u64 warnings;		/* times that a WARN_ON() condition was true */
	u64 switches;
	u64 preemptions;	/* involuntary switches */
	u64 sections_long;	/* timed sections longer than section_limit */
	u64 sections_long_witnessed;	/* long sections that were interrupted or stolen */
	u64 stalls;		/* sections reported by the watchdog */
	u64 stall_max;		/* longest reported section, in TSC ticks until its report */
	u64 softirqs_behind;	/* softirqs raised by a hardirq that interrupted a softirq */
};

/*
 * cpu/cpu.c. The host allocates kiln_cpu_size() bytes, aligned to 64, calls kiln_cpu_init(), and
 * points the GS base of the CPU's thread to this memory. Then it calls kiln_cpu_start() in kernel
 * mode, which creates the kthreads that every CPU has.
 */
KILN_EXPORT size_t kiln_cpu_size(void);
KILN_EXPORT size_t kiln_task_size(void);
KILN_EXPORT void kiln_cpu_init(struct cpu *cpu, const struct kiln_cpu_config *config);
KILN_EXPORT void kiln_cpu_configure(struct cpu *cpu,
				    const struct kiln_cpu_config *config);
KILN_EXPORT void kiln_cpu_start(void);
/* Must be called when no more interrupts can occur and before the memory of @cpu is freed. */
KILN_EXPORT void kiln_cpu_stop(struct cpu *cpu);
/*
 * Wipes the user registers that the last section of the current task saved. Must not be called in
 * kernel mode, where the only copy of these registers may be the saved one.
 */
KILN_EXPORT void kiln_cpu_wipe_registers(struct cpu *cpu);
KILN_EXPORT struct cpu_stats *kiln_cpu_stats(struct cpu *cpu);
KILN_EXPORT struct histogram *kiln_cpu_histogram(struct cpu *cpu, u32 which);
KILN_EXPORT void kiln_cpu_reset_stats(struct cpu *cpu);
/*
 * From this call on, every section is timed and counted as a long section. least[n] becomes the
 * minimum length, in TSC ticks, of all sections that were the n-th to end after a
 * kiln_cpu_reset_stats().
 */
KILN_EXPORT void kiln_cpu_keep_sections(struct cpu *cpu, u64 *least, size_t room);
/* Fault injection for tests: @cpu saves its nested sections to @owner's area instead of its own. */
KILN_EXPORT void kiln_cpu_share_area(struct cpu *cpu, struct cpu *owner);

/* cpu/entry.S: the two entries into kernel mode, by a call and by an interrupt. */
KILN_EXPORT u64 kiln_gate(u64 (*fn)(void *arg), void *arg);
KILN_EXPORT extern const u8 kiln_irq_trampoline[];
/* If the interrupted code is single-stepped, the trampoline traps with this address in RIP. */
KILN_EXPORT extern const u8 kiln_irq_return_trap[];

/*
 * fpu/section.c: policies by number. Kiln's own policies, kiln_fpu_policies() of them, come first;
 * those that hosted trees have added follow. kiln_fpu_policy() returns a policy's name, or NULL
 * after the last. kiln_fpu_policy_set() must not be called while a section is open.
 */
KILN_EXPORT u32 kiln_fpu_policies(void);
KILN_EXPORT const char *kiln_fpu_policy(u32 i);
KILN_EXPORT void kiln_fpu_policy_set(u32 i);
/* fpu/xstate.c: returns the size in bytes of saved FPU state on this CPU. */
KILN_EXPORT u32 kiln_fpstate_size(void);
/* Fault injection for tests: every later save omits these features (bits of XCR0). */
KILN_EXPORT void kiln_fpstate_forget(u32 features);

/* Argument of kiln_fpu_pairs(), which opens and closes @pairs empty sections. */
struct kiln_fpu_pairs {
	u64 pairs;
	bool timed;	/* use the section timer */
};

KILN_EXPORT u64 kiln_fpu_pairs(void *pairs);

/*
 * Argument of kiln_fpu_saves(), which saves and restores all registers @saves times in one section.
 */
struct kiln_fpu_saves {
	u64 saves;
};

KILN_EXPORT u64 kiln_fpu_saves(void *saves);

/* cpu/feature.c: wrappers for the functions declared in cpufeature.h. */
KILN_EXPORT u32 kiln_tiers_present(void);
KILN_EXPORT u32 kiln_tiers(void);
KILN_EXPORT const char *kiln_tier_lacks(u32 tier);
KILN_EXPORT void kiln_tiers_mask(u32 mask);

/* lib/slab.c: provides the memory for transforms. Called once, before any function of crypto/. */
KILN_EXPORT void kiln_slab_give(void *memory, size_t size);
KILN_EXPORT size_t kiln_slab_in_use(void);

/* cpu/irq.c: interrupts this CPU now, or as soon as interrupts are enabled. */
KILN_EXPORT void kiln_irq_self(void);

#endif
