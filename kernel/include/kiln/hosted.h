/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The border for a hosted kernel tree: what its services and its glue call of the CPU
 * they run on. Part of kiln.h. Plain C types, so that it can be included beside the
 * tree's own headers.
 *
 * All are called in kernel mode (kiln_gate) on the calling thread's CPU, at any stack
 * alignment. They use general registers only.
 */
#ifndef KILN_HOSTED_H
#define KILN_HOSTED_H

#include "cpu_offsets.h"

#pragma GCC visibility push(default)

/*
 * hosted.c: what the tree is told. Each CPU that runs its code is attached.
 *
 * new_task makes the tree's word for a task, which GS:0 holds while that runs; @old is
 * the word of a task that ended in the same place, to be used again, or NULL. A task
 * with @user has FPU state of a user mode. It may not sleep. NULL: no task is made.
 * tick is called in hardirq at each tick. idle is called when no task can run, with
 * interrupts on, over and over, with the TSC ticks since this began.
 */
struct kiln_hooks {
	void *(*new_task)(void *old, const char *name, _Bool user);
	void (*tick)(void);
	void (*idle)(unsigned long since);
};

/* False if a word could not be made. @hooks stays the caller's. */
_Bool kiln_attach(const struct kiln_hooks *hooks);
void kiln_detach(void);

/* Softirqs and interrupts. @count is what the tree adds to the preempt count. */
void kiln_local_bh_disable(unsigned int count);
void kiln_local_bh_enable(unsigned int count);
unsigned long kiln_local_irq_save(void);	/* 0x200 if they were on, else 0 */
void kiln_local_irq_restore(unsigned long flags);
void kiln_local_irq_disable(void);
void kiln_local_irq_enable(void);
void kiln_raise_softirq(unsigned int nr);
/* 0 to 9, as the kernel numbers them; Kiln's loads use 3 to 5. */
void kiln_open_softirq(unsigned int nr, void (*handler)(void *cpu));
/* Called in hardirq at each interrupt of this CPU; NULL: nothing is. */
void kiln_on_interrupt(void (*handler)(void *cpu));
void kiln_do_softirq(void);

/*
 * pv.S: the same for the paravirtual calls, which may change no register but RAX:
 * not to be called from C.
 */
void kiln_pv_save_fl(void);
void kiln_pv_irq_disable(void);
void kiln_pv_irq_enable(void);

/* Scheduling. */
void kiln_preempt_schedule(void);
void kiln_preempt_schedule_thunk(void);	/* pv.S: changes no register at all */
void kiln_schedule(void);
_Bool kiln_cond_resched(void);	/* whether others ran */
void kiln_yield(void);
_Bool kiln_need_resched(void);

/*
 * Sleeping and waking, by an address. Who waits says so, asks for what it waits for,
 * and gives the CPU away if there is no sign of it; again until there is:
 *
 *	for (;;) {
 *		kiln_wait_prepare(on);
 *		if (done)
 *			break;
 *		kiln_schedule();
 *	}
 *	kiln_wait_finish();
 *
 * kiln_wake() wakes all tasks that wait on an address, of whatever CPU, from any
 * context. A task may find itself awake without it.
 */
void kiln_wait_prepare(const volatile void *on);
void kiln_wait_finish(void);
void kiln_wake(const volatile void *on);

/*
 * A kernel thread of this CPU, not yet started: it waits on its own tree's word, or on
 * what this returns if there is none. It ends when @fn returns. NULL when there is no
 * room for one.
 */
void *kiln_kthread_create(void (*fn)(void *arg), void *arg, const char *name);
/* Its tree's word; of the task that runs now with NULL. */
void *kiln_task_word(void *task);
/* It does not return. */
void kiln_kthread_exit(void);

/*
 * workqueue.c: work for a thread of this CPU, one item at a time. struct kiln_work is
 * laid out as the kernel's struct work_struct: a pending bit that its inline functions
 * read, two words, and the function.
 */
struct kiln_workqueue;

struct kiln_work {
	volatile unsigned long pending;		/* bit 0 */
	struct kiln_work *next;
	struct kiln_workqueue *queue;		/* the last one it was queued on */
	void (*fn)(struct kiln_work *work);
};

struct kiln_workqueue {
	struct kiln_work *head, *tail;
	struct kiln_work *volatile running;
	volatile unsigned int stopped;
};

/* Starts its thread on this CPU; false if there is no room for one. */
_Bool kiln_workqueue_start(struct kiln_workqueue *queue, const char *name);
/* Its thread ends when all that is queued is done. Sleeps until then. */
void kiln_workqueue_stop(struct kiln_workqueue *queue);
/* With no @queue on the CPU's own. False if it is queued already. */
_Bool kiln_queue_work(struct kiln_workqueue *queue, struct kiln_work *work);
/* Take it from its queue; whether it was there. */
_Bool kiln_cancel_work(struct kiln_work *work);
/* Sleep until it neither waits in @queue nor runs there. */
void kiln_flush_work(struct kiln_workqueue *queue, struct kiln_work *work);

/* Count a warning of the tree's; also from a signal handler of the host. */
void kiln_warn(void);

/*
 * section.c: a policy that is the tree's. What begins and ends sections is the tree's
 * own code, without the accounting below, which Kiln does around it.
 */
struct kiln_fpu_ops {
	const char *name;
	void (*begin)(void);
	void (*end)(void);
	_Bool (*usable)(void);
	/*
	 * Before user mode, interrupts off: load the current task's FPU state if it is
	 * not in the registers. Whether it was loaded.
	 */
	_Bool (*user_restore)(void);
	/* From one task to another, by their words, interrupts off. */
	void (*switch_to)(void *prev, void *next);
};

/* Its number, for kiln_fpu_policy_set(); -1 when there are too many. */
int kiln_fpu_policy_add(const struct kiln_fpu_ops *ops);

/* Whether the policy in force allows a section here and now. */
_Bool kiln_fpu_usable(void);

/*
 * The accounting of a section that the tree opens by itself: the clock, the depth, the
 * count, as for one of Kiln's. kiln_section_begin/end are for the code that stands
 * before the tree's functions.
 */
struct kiln_section {
	unsigned long now;
	unsigned int irqs_seen;
};

void kiln_section_time(struct kiln_section *section);
void kiln_section_enter(const struct kiln_section *section);
void kiln_section_leave(void);

#pragma GCC visibility pop

#define kiln_section_begin(call)                                                  \
	do {                                                                      \
		unsigned char skip_;                                              \
										  \
		__asm__ volatile("movb %%gs:%c1, %0"                              \
				 : "=q"(skip_)                                    \
				 : "i"(KILN_CPU_SECTION_SKIP));                   \
		if (__builtin_expect(!skip_, 0)) {                                \
			struct kiln_section section_;                             \
										  \
			kiln_section_time(&section_);                             \
			call;                                                     \
			kiln_section_enter(&section_);                            \
		} else {                                                          \
			__asm__ volatile("decb %%gs:%c0"                          \
					 :                                        \
					 : "i"(KILN_CPU_SECTION_SKIP)             \
					 : "memory", "cc");                       \
			call;                                                     \
			__asm__ volatile("incb %%gs:%c0"                          \
					 :                                        \
					 : "i"(KILN_CPU_SECTION_DEPTH)            \
					 : "memory", "cc");                       \
		}                                                                 \
	} while (0)

/* A timed section, one too many or one that was never begun is for the function. */
#define kiln_section_end(call)                                                    \
	do {                                                                      \
		unsigned char depth_;                                             \
		unsigned long start_ = 1;                                         \
										  \
		__asm__ volatile("movb %%gs:%c1, %0"                              \
				 : "=q"(depth_)                                   \
				 : "i"(KILN_CPU_SECTION_DEPTH));                  \
		if (__builtin_expect(depth_ - 1u < 3, 1))                         \
			__asm__ volatile("movq %%gs:%c1(,%2,8), %0"               \
					 : "=r"(start_)                           \
					 : "i"(KILN_CPU_SECTION_START - 8),       \
					   "r"((unsigned long)depth_));           \
		if (__builtin_expect(start_, 0))                                  \
			kiln_section_leave();                                     \
		else                                                              \
			__asm__ volatile("decb %%gs:%c0\n\tincq %%gs:%c1"         \
					 :                                        \
					 : "i"(KILN_CPU_SECTION_DEPTH),           \
					   "i"(KILN_CPU_SECTIONS)                 \
					 : "memory", "cc");                       \
		call;                                                             \
	} while (0)

#endif
