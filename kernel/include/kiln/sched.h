/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tasks of an emulated CPU. They share one host thread, and each has its own stack. All have nice
 * 0 and are scheduled fairly by run time.
 */
#ifndef KILN_SCHED_H
#define KILN_SCHED_H

#include <kiln/cpu.h>

/* sched.c: runs the next task. The current task goes to sleep if its state is TASK_SLEEPING. */
void schedule(void);
bool cond_resched(void);
void yield(void);
void wake_up(struct task *task);
void sched_tick(struct cpu *cpu);
bool need_resched(void);

/*
 * wait.c: sleeps until @condition is true. Code that makes it true must then wake the tasks that
 * wait on @on.
 */
#define wait_until(on, condition)            \
	do {                                 \
		for (;;) {                   \
			kiln_wait_prepare(on); \
			if (condition)       \
				break;       \
			schedule();          \
		}                            \
		kiln_wait_finish();          \
	} while (0)

/* kthread.c: creates a sleeping kthread. Returns NULL if the CPU has no free task. */
struct task *kthread_create(void (*fn)(void *arg), void *arg, const char *name);
/* Creates a kthread and wakes it up. */
struct task *kthread_run(void (*fn)(void *arg), void *arg, const char *name);
void kthread_exit(void);

/* wait.c: makes another CPU wake one of its tasks at its next interrupt or task switch. */
void wake_up_remote(struct task *task);
void wakes_of_others(struct cpu *cpu);

/* switch.S: saves the stack pointer at @prev_sp and continues on @next_sp. */
void cpu_switch(u64 *prev_sp, u64 next_sp);
void cpu_task_start(void);

#endif
