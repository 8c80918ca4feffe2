/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The interface that an emulated CPU provides to the kernel tree that it hosts. The tree's services
 * and glue code call these functions. This header uses plain C types only, so that it can be
 * included together with the tree's own headers.
 *
 * All functions are called in kernel mode (kiln_gate) and act on the calling thread's CPU. They do
 * not depend on the stack's alignment, and use general-purpose registers only.
 */
#ifndef KILN_ABI_HOSTED_H
#define KILN_ABI_HOSTED_H

#include "../cpu_offsets.h"

#pragma GCC visibility push(default)

/*
 * hosted.c: the tree's hooks. Each CPU that runs the tree's code must be attached.
 *
 * new_task returns the tree's own task structure for a new task. Comments in this file call the
 * address of this structure the task's word. GS:0 points to the structure while the task runs. @old
 * is NULL, or the structure of a task that has exited, to be reused. If @user, the task has user
 * FPU state. The function must not sleep, and returns NULL on failure.
 *
 * tick is called in hardirq context at each timer tick. idle is called repeatedly while no task is
 * runnable, with interrupts on; @since is the number of TSC ticks since the CPU became idle.
 *
 * uncounted may be NULL. It serves a tree that has its own preempt count, which the tree's inline
 * functions change without calling Kiln (local_bh_disable() since 7.2). It returns how much these
 * functions have added to bits 0 to 15 since the previous call. It is called with interrupts off.
 *
 * context may be NULL and serves the same kind of tree. It is called when the CPU enters a hardirq,
 * a softirq, an NMI, or an errand with softirqs off. @n is the amount that entering adds to Kiln's
 * preempt count (<kiln/preempt.h>). When the CPU leaves the context, the function is called with
 * -@n.
 *
 * worked may be NULL. It is called in the thread of a work queue after each item.
 */
struct kiln_hooks {
	void *(*new_task)(void *old, const char *name, _Bool user);
	void (*tick)(void);
	void (*idle)(unsigned long since);
	int (*uncounted)(void);
	void (*context)(int n);
	void (*worked)(void);
};

/* Attaches this CPU. Returns false if new_task failed. @hooks must remain valid. */
_Bool kiln_attach(const struct kiln_hooks *hooks);
void kiln_detach(void);

/*
 * Control softirqs and interrupts. kiln_local_bh_disable() adds @count to the tree's preempt count.
 */
void kiln_local_bh_disable(unsigned int count);
void kiln_local_bh_enable(unsigned int count);
/*
 * Runs pending softirqs. It replaces kiln_local_bh_enable() for a tree that has already lowered its
 * own preempt count.
 */
void kiln_bh_enabled(void);
unsigned long kiln_local_irq_save(void);	/* returns 0x200 if interrupts were on, else 0 */
void kiln_local_irq_restore(unsigned long flags);
void kiln_local_irq_disable(void);
void kiln_local_irq_enable(void);
void kiln_raise_softirq(unsigned int nr);
/* @nr is the kernel's number for the softirq, 0 to 9; Kiln's own workloads use 3 to 7. */
void kiln_open_softirq(unsigned int nr, void (*handler)(void *cpu));
/* Sets a function to be called in hardirq context at each interrupt on this CPU, or NULL. */
void kiln_on_interrupt(void (*handler)(void *cpu));
void kiln_do_softirq(void);

/*
 * pv.S: variants of the functions above for paravirtual calls. They preserve all registers but RAX,
 * and must not be called from C.
 */
void kiln_pv_save_fl(void);
void kiln_pv_irq_disable(void);
void kiln_pv_irq_enable(void);

/* sched.c: equivalents of the kernel's functions of the same names. */
void kiln_preempt_schedule(void);
void kiln_preempt_schedule_thunk(void);	/* pv.S: preserves all registers */
void kiln_schedule(void);
_Bool kiln_cond_resched(void);	/* returns whether it scheduled */
void kiln_yield(void);
_Bool kiln_need_resched(void);

/*
 * Sleeping and waking, by address. A waiter prepares, checks its condition, and schedules if
 * the condition is false:
 *
 *	for (;;) {
 *		kiln_wait_prepare(on);
 *		if (done)
 *			break;
 *		kiln_schedule();
 *	}
 *	kiln_wait_finish();
 *
 * kiln_wake() wakes all tasks that wait on an address, on any CPU, and may be called in any
 * context. A task may also wake up spuriously.
 */
void kiln_wait_prepare(const volatile void *on);
void kiln_wait_finish(void);
void kiln_wake(const volatile void *on);

/*
 * Creates a kernel thread on this CPU. The thread does not run until kiln_wake() is called with the
 * thread's word or, if the CPU is not attached, with the returned address. The thread exits when
 * @fn returns. Returns NULL if the CPU has no free task.
 */
void *kiln_kthread_create(void (*fn)(void *arg), void *arg, const char *name);
/* Returns the word of @task, or of the current task if @task is NULL. */
void *kiln_task_word(void *task);
/* Exits the current kernel thread. Does not return. */
void kiln_kthread_exit(void);

/*
 * workqueue.c: work items, which a thread on this CPU runs one after another. struct kiln_work has
 * the layout of the kernel's struct work_struct: a pending bit that the kernel's inline functions
 * read, two words, and the function.
 */
struct kiln_workqueue;

struct kiln_work {
	volatile unsigned long pending;		/* bit 0: the item is queued */
	struct kiln_work *next;
	struct kiln_workqueue *queue;		/* queue to which the item was added last */
	void (*fn)(struct kiln_work *work);
};

struct kiln_workqueue {
	struct kiln_work *head, *tail;
	struct kiln_work *volatile running;
	volatile unsigned int stopped;
};

/* Starts the queue's thread on this CPU. Returns false if the CPU has no free task. */
_Bool kiln_workqueue_start(struct kiln_workqueue *queue, const char *name);
/* Sleeps until all queued items are done and the thread has exited. */
void kiln_workqueue_stop(struct kiln_workqueue *queue);
/*
 * Queues an item; a NULL @queue means the CPU's own queue. Returns false if the item was already
 * queued.
 */
_Bool kiln_queue_work(struct kiln_workqueue *queue, struct kiln_work *work);
/* Removes an item from its queue. Returns whether it was queued. */
_Bool kiln_cancel_work(struct kiln_work *work);
/* Sleeps until the item is neither queued on @queue nor running. */
void kiln_flush_work(struct kiln_workqueue *queue, struct kiln_work *work);

/* Increments the tree's warning count. May be called from a signal handler of the host. */
void kiln_warn(void);

/*
 * section.c: the tree as an FPU policy. The tree's own code begins and ends sections; Kiln accounts
 * for them with the functions below.
 */
struct kiln_fpu_ops {
	const char *name;
	void (*begin)(void);
	void (*end)(void);
	_Bool (*usable)(void);
	/*
	 * Called before the return to user mode, with interrupts off: restores the current task's
	 * FPU state if it is not in the registers, and returns whether it has done so.
	 */
	_Bool (*user_restore)(void);
	/* Called at a task switch with interrupts off. The arguments are the tasks' words. */
	void (*switch_to)(void *prev, void *next);
};

/* Adds a policy. Returns its number for kiln_fpu_policy_set(), or -1 if there are too many. */
int kiln_fpu_policy_add(const struct kiln_fpu_ops *ops);

/* Returns whether the active policy allows a section in the current context. */
_Bool kiln_fpu_usable(void);

/*
 * Accounting for a section that the tree opens itself, so that the timer, the depth and the count
 * are updated as for Kiln's own sections. Wrappers around the tree's functions call
 * kiln_section_begin() and kiln_section_end().
 */
struct kiln_section {
	unsigned long now;
	unsigned int irqs_seen;
};

void kiln_section_time(struct kiln_section *section);
void kiln_section_enter(const struct kiln_section *section);
void kiln_section_leave(void);

#pragma GCC visibility pop

/*
 * Decrements the number of sections that the section timer is to skip. Returns true if there
 * was a section to skip; otherwise the caller times this section. The count is then negative until
 * the timing code sets it to zero, so an interrupt in between times its sections, too. The
 * decrement is one instruction, so no interrupt can occur between the test and the decrement.
 */
#define kiln_section_skip()                                                       \
	({                                                                        \
		_Bool none_;                                                      \
										  \
		__asm__ volatile("decb %%gs:%c1"                                  \
				 : "=@ccs"(none_)                                 \
				 : "i"(KILN_CPU_SECTION_SKIP)                     \
				 : "memory");                                     \
		!none_;                                                           \
	})

#define kiln_section_begin(call)                                                  \
	do {                                                                      \
		if (__builtin_expect(!kiln_section_skip(), 0)) {                  \
			struct kiln_section section_;                             \
										  \
			kiln_section_time(&section_);                             \
			call;                                                     \
			kiln_section_enter(&section_);                            \
		} else {                                                          \
			call;                                                     \
			__asm__ volatile("incb %%gs:%c0"                          \
					 :                                        \
					 : "i"(KILN_CPU_SECTION_DEPTH)            \
					 : "memory", "cc");                       \
		}                                                                 \
	} while (0)

/* Calls kiln_section_leave() only for a timed section or an unbalanced call. */
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
