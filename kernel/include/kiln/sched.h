/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tasks of an emulated CPU: stackful contexts on its one host thread, fair by run
 * time, all of nice 0.
 *
 * sched.c APIs:
 *	schedule, cond_resched, yield, wake_up, sched_tick
 * kthread.c APIs:
 *	kthread_create
 * workqueue.c APIs:
 *	queue_work	one item at a time, CPU-intensive, on this CPU
 */
#ifndef KILN_SCHED_H
#define KILN_SCHED_H

#include <kiln/cpu.h>

/* Run another task if there is one that should. Sleeps if state says so. */
void schedule(void);
void cond_resched(void);
void yield(void);
void wake_up(struct task *task);
void sched_tick(struct cpu *cpu);
bool need_resched(void);

/* NULL when all NR_TASKS are taken. */
struct task *kthread_create(void (*fn)(void *arg), void *arg, const char *name);

/* False if it is queued already. */
bool queue_work(struct work *work);

/* switch.S: leave @prev's stack for that of @next. */
void cpu_switch(u64 *prev_sp, u64 next_sp);
void cpu_task_start(void);

#endif
