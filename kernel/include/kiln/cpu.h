/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * An emulated CPU: all per-CPU data of a kernel, in one structure. The GS base of the CPU's host
 * thread points to it.
 */
#ifndef KILN_CPU_H
#define KILN_CPU_H

#include <kiln/abi/cpu.h>
#include <kiln/abi/hosted.h>
#include <kiln/percpu.h>

#define FPSTATE_SIZE 4096	/* at least kiln_fpstate_size() */
#define NR_SOFTIRQS 10
#define CPU_AREA_WORDS 16
#define SECTION_MAX_SKIP 63

/* The vector registers, MXCSR and the x87 state, in the format of XSAVEC. */
struct fpstate {
	u8 bytes[FPSTATE_SIZE];
} __aligned(64);

enum task_state { TASK_FREE, TASK_RUNNING, TASK_SLEEPING };

/* Bits of @flags in struct task. */
enum {
	TF_KTHREAD = 1,		/* has no user FPU state */
	TF_NEED_FPU_LOAD = 2,	/* the user FPU state is in user_fpu, not in registers */
	TF_KERNEL_FPSTATE = 4,	/* in a section under the preemptible policy, and using kernel_fpu */
};

/* An entry in wait.c's hash table: a task that waits on an address. */
struct waiter {
	struct waiter *next, **prev;
	const volatile void *on;
};

struct task {
	u64 sp;			/* stack pointer while switched out */
	u32 flags;
	volatile enum task_state state;
	bool queued;		/* is on the run queue */
	bool waits;		/* @waiter is in the table of wait.c */
	bool urgent;		/* preempts the current task when woken */
	bool delayed;		/* sleeps, but stays queued until eligible */
	u8 section_depth;
	u64 section_time;	/* ticks so far in a timed section, if the task is switched out */
	struct task *next, **prev;	/* links of the run queue */
	struct waiter waiter;
	struct task *remote_next;	/* link in the CPU's list of remote wakeups */
	u32 remote_queued;
	struct cpu *cpu;
	void *foreign;		/* a hosted tree's task_struct */
	const char *name;
	u64 vruntime;		/* virtual run time in TSC ticks */
	u64 slice_start;	/* vruntime when the task was last switched in */
	u64 deadline;		/* virtual time at which the slice ends */
	u64 protect;		/* used by is_protected() in sched.c */
	s64 lag;		/* lag when the task went to sleep */
	u64 since;		/* TSC when the task was last switched in or charged */
	void (*fn)(void *arg);
	void *arg;
	struct fpstate user_fpu;
	struct fpstate kernel_fpu;	/* policy preemptible: an interrupted section's registers */
};

typedef void irq_handler_t(struct cpu *cpu);

struct cpu {
	/* The first cache line has the same layout as struct pcpu_hot of Linux 6.12. */
	void *foreign;		/* a hosted tree's current task */
	u32 preempt_count;
	u32 number;
	u64 call_depth;
	u64 top_of_stack;
	void *hardirq_stack;
	u16 softirq_pending;
	bool hardirq_stack_inuse;
	u8 pad[21];

	struct cpu *self;
	u32 irqs_off;
	u32 irq_pending;	/* an interrupt arrived while interrupts were off */
	u32 kernel_mode;	/* 0: user mode, with the user's FPU state in the registers */
	u32 injecting;		/* reserved for the host's signal handlers */
	struct task *current_task;
	bool in_kernel_fpu;
	bool preempt_full;
	u8 irqs_seen;		/* number of interrupts, modulo 256 */
	u8 section_depth;	/* number of open sections on this CPU */
	u8 section_base;	/* section_depth when the current interrupt arrived */
	s8 section_skip;	/* see kiln_section_skip() in hosted.h */
	u8 section_weight;	/* how often the next timed section counts in the histogram */
	u8 section_irqs[3];	/* irqs_seen when the section of each depth started */
	u8 section_max_skip;	/* maximum of section_skip; 0: all sections are timed */
	u64 section_start[3];	/* TSC when the section of each depth started; 0 if not timed */
	volatile u64 *witness;	/* word that the host clears when it preempts this thread */
	u64 witness_armed;	/* value that is written to *witness when a section starts */
	struct cpu_stats stats;
	struct histogram *section_into;	/* histogram that records the section lengths */
	u64 section_limit;	/* TSC ticks from which a section counts as long */
	u64 watchdog;		/* TSC ticks that a section may take; 0: no watchdog */
	u64 watchdog_seen;	/* start of the section that was reported last */
	u64 irq_time;		/* TSC at the entry of the last hardirq */
	u64 raise_time;		/* TSC at which softirq_pending became nonzero */

	irq_handler_t *irq_handler;
	irq_handler_t *softirq_handler[NR_SOFTIRQS];
	void *irq_data;
	void *errand;		/* struct errand of context.c */

	u64 ticks_per_us;
	u32 scheduler;		/* enum kiln_scheduler */
	bool resched_lazy;	/* reschedule at the next cond_resched() or tick */
	bool stepped;		/* single-stepped, so limits in time do not apply */
	u64 tick, slice;	/* TSC ticks; slice: EEVDF base slice or CFS minimum granularity */
	u64 latency;		/* CFS: period that tasks share */
	u64 wakeup_granularity;
	u64 min_vruntime;
	u64 switch_cost;	/* TSC ticks that a task switch takes */
	u64 next_tick;
	u64 last_irq, steal_limit;	/* see forgive_steal(); steal_limit 0: off */
	struct task *task;	/* task table; task 0 enters kernel mode through the gate */
	u32 nr_tasks;
	u8 *kstacks;		/* the kernel stacks, one per task */
	u64 kstack_size, kstack_stride;
	struct task *runnable, **runnable_end;	/* run queue, including the current task */
	struct task *remote;	/* tasks of this CPU that another CPU wants to wake */
	struct task *ksoftirqd;
	struct kiln_workqueue works;
	struct task *kworker;
	u64 area[CPU_AREA_WORDS];	/* for a higher layer, such as cryptd; zero at the start */
	const struct kiln_hooks *hooks;	/* functions of a hosted tree, or NULL */

	u64 *section_least;	/* see kiln_cpu_keep_sections() */
	size_t section_room;

	struct histogram section_time, softirq_latency, softirq_time;
	struct fpstate *nested_area;
	struct fpstate nested_fpu;
};

_Static_assert(__builtin_offsetof(struct cpu, self) == 64, "pcpu_hot is one line");
_Static_assert(sizeof(struct cpu) <= KILN_CPU_END, "the host uses what follows");

/* irq.c: called by the interrupt trampoline. Interrupts are off on entry and on return. */
void irq_entry(u64 from_user);
void local_irq_disable(void);
void local_irq_enable(void);
/* Sets the hardirq handler of this CPU to @hardirq and the handler of softirq @nr to @softirq. */
void irq_attach(void *data, unsigned int nr, irq_handler_t *softirq, irq_handler_t *hardirq);
/* Removes the interrupt handler. Pending softirqs still run. */
void irq_detach(void);

/* Disables interrupts. Returns whether they were off already. */
static __always_inline bool local_irq_save(void)
{
	const bool off = this_cpu_read(irqs_off);

	local_irq_disable();
	return off;
}

static __always_inline void local_irq_restore(bool off)
{
	if (!off)
		local_irq_enable();
}

/*
 * Returns whether the emulated CPU's interrupts are off. PUSHF is executed, although its result is
 * not used, so that the cost is the same as in a kernel.
 */
static __always_inline bool irqs_disabled(void)
{
	u64 flags;

	__asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags) : : "memory");
	return this_cpu_read(irqs_off);
}

/* softirq.c: marks softirq @nr as pending. */
void raise_softirq(unsigned int nr);
void do_softirq(void);
void local_bh_enable(void);
void local_bh_disable(void);
void bh_enable(u32 count);	/* undoes a disable that added @count to the preempt count */

static __always_inline u64 rdtsc(void)
{
	u32 low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

/* Increments the warning count where a debug kernel would print a warning. */
#define WARN_ON(condition)                                \
	({                                                \
		const bool warn_ = (condition);           \
							  \
		if (unlikely(warn_))                      \
			this_cpu_inc(stats.warnings);     \
		unlikely(warn_);                          \
	})

#endif
