/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * An emulated CPU: everything a kernel keeps per CPU, in one structure that its
 * host thread's GS base points to.
 *
 * cpu.c APIs:
 *	kiln_cpu_size, kiln_cpu_init	memory from the host becomes a CPU
 * irq.c APIs:
 *	irq_entry		what the interrupt trampoline calls
 *	local_irq_*		interrupts off and on
 * softirq.c APIs:
 *	raise_softirq, local_bh_*, do_softirq
 * watchdog.c APIs:
 *	watchdog_look		what an interrupt finds of the section it came into
 * context.c APIs: context.h
 * sched.c, kthread.c, workqueue.c APIs: sched.h
 */
#ifndef KILN_CPU_H
#define KILN_CPU_H

#include <kiln/histogram.h>
#include <kiln/hosted.h>
#include <kiln/percpu.h>

#define FPSTATE_SIZE 4096	/* at least what kiln_fpstate_size() says */
#define NR_SOFTIRQS 10

/* The vector registers, MXCSR and x87, as XSAVEC lays them out. */
struct fpstate {
	u8 bytes[FPSTATE_SIZE];
} __aligned(64);

enum task_state { TASK_FREE, TASK_RUNNING, TASK_SLEEPING };

/* Task flags. */
enum {
	TF_KTHREAD = 1,		/* has no user FPU state */
	TF_NEED_FPU_LOAD = 2,	/* user FPU state is in user_fpu, not in registers */
	TF_KERNEL_FPSTATE = 4,	/* in a preemptible section: has kernel_fpu */
};

/* A task that waits on an address: see wait.c. */
struct waiter {
	struct waiter *next, **prev;
	const volatile void *on;
};

struct task {
	u64 sp;			/* while switched out */
	u32 flags;
	volatile enum task_state state;
	bool queued;		/* among the runnable */
	bool waits;		/* among those that wait on an address */
	bool urgent;		/* preempts whoever runs when it is woken */
	u8 section_depth;
	u64 section_time;	/* of a section it was switched out in, if that is timed */
	struct task *next, **prev;	/* of the runnable */
	struct waiter waiter;
	struct task *remote_next;	/* of those that another CPU wakes */
	u32 remote_queued;
	struct cpu *cpu;
	void *foreign;		/* a hosted tree's word for it */
	const char *name;
	u64 vruntime;		/* TSC ticks run */
	u64 slice_start;	/* vruntime at which its slice began */
	u64 since;		/* TSC at which it was switched in */
	void (*fn)(void *arg);
	void *arg;
	struct fpstate user_fpu;
	struct fpstate kernel_fpu;	/* second area, policy preemptible only */
};

/* What is counted on each CPU, always. */
struct cpu_stats {
	u64 irqs;		/* hardirqs taken */
	u64 irqs_user;		/* of them, from user mode */
	u64 irqs_in_section;	/* of them, with a section in progress */
	u64 softirqs;		/* softirq handlers run */
	u64 softirqs_deferred;	/* times the loop's limits left some to ksoftirqd */
	u64 sections;
	u64 sections_timed;	/* the rest stand in the histogram through these */
	u64 sections_interrupted;	/* of those timed: an interrupt came meanwhile */
	u64 sections_stolen;	/* of the others: the host took the CPU away */
	u64 user_saves, user_restores;
	u64 nested_saves;
	u64 task_saves;		/* sections' state saved at a switch */
	u64 warnings;		/* what a debug kernel would have warned of */
	u64 switches;
	u64 preemptions;	/* of them, of a task that did not ask for it */
	u64 sections_long;	/* of those timed, longer than section_limit */
	u64 sections_long_witnessed;	/* of them, interrupted or stolen */
	u64 stalls;		/* what the watchdog found */
	u64 stall_max;		/* TSC ticks of the longest, when it was found */
};

typedef void irq_handler_t(struct cpu *cpu);

/* Requests that wait; beyond @max_qlen only those that may be backlogged. */
struct crypto_queue {
	struct crypto_request *head, *tail, *backlog;
	u32 qlen, max_qlen;
};

struct cpu {
	/* The first cache line is laid out as Linux 6.12's struct pcpu_hot. */
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
	u32 irq_pending;	/* interrupts that came while they were off */
	u32 kernel_mode;	/* 0: user mode, the user's FPU state is live */
	u32 injecting;		/* the host's: what its signal handler is about */
	struct task *current_task;
	bool in_kernel_fpu;
	bool simd_disabled_for_test;
	bool preempt_full;
	u8 irqs_seen;		/* interrupts, modulo 256 */
	u8 section_depth;	/* sections in progress on this CPU ... */
	u8 section_base;	/* ... when the interrupt being served came */
	u8 section_skip;	/* so many are not to be timed */
	u8 section_weight;	/* so many the next that is timed stands for */
	u8 section_irqs[3];	/* irqs_seen at their start */
	u64 section_start[3];	/* TSC at their start; 0 if they are not timed */
	volatile u64 *witness;	/* a word that the host clears when it ... */
	u64 witness_armed;	/* ... takes the CPU away after this was written */
	struct cpu_stats stats;
	struct histogram *section_into;	/* where lengths go */
	u64 section_limit;	/* TSC ticks */
	u64 watchdog;		/* TSC ticks a section may take; 0: nobody looks */
	u64 watchdog_seen;	/* start of the section that was reported last */
	u64 irq_time;		/* TSC at the entry of the last hardirq */
	u64 raise_time;		/* TSC at which a softirq was last raised from none */

	irq_handler_t *irq_handler;
	irq_handler_t *softirq_handler[NR_SOFTIRQS];
	void *irq_data;
	void *errand;		/* context.c */

	u64 ticks_per_us;
	u64 tick, slice;	/* TSC ticks */
	u64 switch_cost;	/* TSC ticks charged for a switch */
	u64 next_tick;
	struct task *task;	/* the first is who entered the kernel */
	u32 nr_tasks;
	u8 *kstacks;		/* one for each task */
	u64 kstack_size, kstack_stride;
	struct task *runnable, **runnable_end;	/* the current one is among them */
	struct task *remote;	/* to be woken, says another CPU */
	struct task *ksoftirqd;
	struct kiln_workqueue works;
	struct task *kworker;
	struct kiln_work cryptd_work;
	struct crypto_queue cryptd_queue;
	const struct kiln_hooks *hooks;	/* of a hosted tree */

	struct histogram section_time, softirq_latency, softirq_time;
	struct fpstate *nested_area;
	struct fpstate nested_fpu;
};

_Static_assert(__builtin_offsetof(struct cpu, self) == 64, "pcpu_hot is one line");
_Static_assert(sizeof(struct cpu) <= KILN_CPU_END, "what follows is the host's");

/* Called with interrupts off; leaves them off. */
void irq_entry(u64 from_user);
void local_irq_disable(void);
void local_irq_enable(void);

/* Whether they were off already. */
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
 * What asking costs: a kernel executes PUSHF. The answer itself is a word of the
 * emulated CPU.
 */
static __always_inline bool irqs_disabled(void)
{
	u64 flags;

	__asm__ volatile("pushfq\n\tpopq %0" : "=r"(flags) : : "memory");
	return this_cpu_read(irqs_off);
}

void raise_softirq(unsigned int nr);
void do_softirq(void);
void local_bh_enable(void);
void local_bh_disable(void);
void bh_enable(u32 count);	/* lifts what added this much to the preempt count */

static __always_inline u64 rdtsc(void)
{
	u32 low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

/* Count what a debug kernel would print a warning for. */
#define WARN_ON(condition)                                \
	({                                                \
		const bool warn_ = (condition);           \
							  \
		if (unlikely(warn_))                      \
			this_cpu_inc(stats.warnings);     \
		unlikely(warn_);                          \
	})

#endif
