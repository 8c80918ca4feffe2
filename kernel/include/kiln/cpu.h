/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * An emulated CPU: all per-CPU data of a kernel, in one structure that the GS base of its host
 * thread points to.
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

/* The vector registers, MXCSR and x87, in the format of XSAVEC. */
struct fpstate {
	u8 bytes[FPSTATE_SIZE];
} __aligned(64);

enum task_state { TASK_FREE, TASK_RUNNING, TASK_SLEEPING };

/* Task flags. */
enum {
	TF_KTHREAD = 1,		/* has no user FPU state */
	TF_NEED_FPU_LOAD = 2,	/* user FPU state is in user_fpu, not in registers */
	TF_KERNEL_FPSTATE = 4,	/* in a preemptible section, uses kernel_fpu */
};

/* A task that waits on an address, in the hash table of wait.c. */
struct waiter {
	struct waiter *next, **prev;
	const volatile void *on;
};

struct task {
	u64 sp;			/* while switched out */
	u32 flags;
	volatile enum task_state state;
	bool queued;		/* on the run queue */
	bool waits;		/* its waiter is in the table of wait.c */
	bool urgent;		/* preempts the current task when it is woken */
	bool delayed;		/* sleeps, but stays queued until it is eligible */
	u8 section_depth;
	u64 section_time;	/* so far, if switched out in a timed section */
	struct task *next, **prev;	/* run queue */
	struct waiter waiter;
	struct task *remote_next;	/* list of tasks to be woken by another CPU */
	u32 remote_queued;
	struct cpu *cpu;
	void *foreign;		/* a hosted tree's task_struct */
	const char *name;
	u64 vruntime;		/* TSC ticks run */
	u64 slice_start;	/* vruntime at which it was switched in */
	u64 deadline;		/* virtual time at which its slice ends */
	u64 protect;		/* is_protected() of sched.c */
	s64 lag;		/* when it went to sleep */
	u64 since;		/* TSC at which it was switched in */
	void (*fn)(void *arg);
	void *arg;
	struct fpstate user_fpu;
	struct fpstate kernel_fpu;	/* of a section; policy preemptible only */
};

typedef void irq_handler_t(struct cpu *cpu);

struct cpu {
	/* The first cache line has the layout of Linux 6.12's struct pcpu_hot. */
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
	u32 injecting;		/* used by the host's signal handlers */
	struct task *current_task;
	bool in_kernel_fpu;
	bool preempt_full;
	u8 irqs_seen;		/* interrupts, modulo 256 */
	u8 section_depth;	/* sections in progress on this CPU ... */
	u8 section_base;	/* ... when the current interrupt arrived */
	s8 section_skip;	/* kiln_section_skip() of hosted.h */
	u8 section_weight;	/* sections that the next timed one represents in the histogram */
	u8 section_irqs[3];	/* irqs_seen at their start, by depth */
	u8 section_max_skip;	/* 0: all sections are timed */
	u64 section_start[3];	/* TSC at their start, by depth; 0 if not timed */
	volatile u64 *witness;	/* points to a word that the host clears ... */
	u64 witness_armed;	/* ... when it preempts this thread; the value that was written there */
	struct cpu_stats stats;
	struct histogram *section_into;	/* of section lengths */
	u64 section_limit;	/* TSC ticks */
	u64 watchdog;		/* TSC ticks a section may take; 0: no watchdog */
	u64 watchdog_seen;	/* start of the section that was reported last */
	u64 irq_time;		/* TSC at the entry of the last hardirq */
	u64 raise_time;		/* TSC at which softirq_pending became nonzero */

	irq_handler_t *irq_handler;
	irq_handler_t *softirq_handler[NR_SOFTIRQS];
	void *irq_data;
	void *errand;		/* context.c */

	u64 ticks_per_us;
	u32 scheduler;		/* enum kiln_scheduler */
	bool resched_lazy;	/* reschedule at the next cond_resched() or tick */
	bool stepped;		/* single steps slow it down: limits in time do not apply */
	u64 tick, slice;	/* TSC ticks; slice: base slice or minimal granularity */
	u64 latency;		/* the period that tasks share; this and the next two: CFS only */
	u64 wakeup_granularity;
	u64 min_vruntime;
	u64 switch_cost;	/* TSC ticks charged for a switch */
	u64 next_tick;
	u64 last_irq, steal_limit;	/* see forgive_steal(); steal_limit 0: off */
	struct task *task;	/* the first is the one that enters through the gate */
	u32 nr_tasks;
	u8 *kstacks;		/* one per task */
	u64 kstack_size, kstack_stride;
	struct task *runnable, **runnable_end;	/* includes the current task */
	struct task *remote;	/* to be woken on behalf of another CPU */
	struct task *ksoftirqd;
	struct kiln_workqueue works;
	struct task *kworker;
	u64 area[CPU_AREA_WORDS];	/* per-CPU data of a higher layer; zero at first */
	const struct kiln_hooks *hooks;	/* of a hosted tree */

	u64 *section_least;	/* kiln_cpu_keep_sections() */
	size_t section_room;

	struct histogram section_time, softirq_latency, softirq_time;
	struct fpstate *nested_area;
	struct fpstate nested_fpu;
};

_Static_assert(__builtin_offsetof(struct cpu, self) == 64, "pcpu_hot is one line");
_Static_assert(sizeof(struct cpu) <= KILN_CPU_END, "the host uses what follows");

/* irq.c: called by the interrupt trampoline with interrupts off, which stay off. */
void irq_entry(u64 from_user);
void local_irq_disable(void);
void local_irq_enable(void);
/* From now on @hardirq handles this CPU's interrupts, and @softirq handles softirq @nr. */
void irq_attach(void *data, unsigned int nr, irq_handler_t *softirq, irq_handler_t *hardirq);
/* Interrupts do nothing from now on; softirqs that are pending still run. */
void irq_detach(void);

/* Returns whether interrupts were off already. */
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
 * Executes PUSHF only because a kernel would, for its cost. The result comes from the emulated
 * CPU.
 */
static __always_inline bool irqs_disabled(void)
{
	u64 flags;

	__asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags) : : "memory");
	return this_cpu_read(irqs_off);
}

/* softirq.c */
void raise_softirq(unsigned int nr);
void do_softirq(void);
void local_bh_enable(void);
void local_bh_disable(void);
void bh_enable(u32 count);	/* @count was added to the preempt count */

static __always_inline u64 rdtsc(void)
{
	u32 low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

/* Counts a warning where a debug kernel would print one. */
#define WARN_ON(condition)                                \
	({                                                \
		const bool warn_ = (condition);           \
							  \
		if (unlikely(warn_))                      \
			this_cpu_inc(stats.warnings);     \
		unlikely(warn_);                          \
	})

#endif
