/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tasks of an emulated CPU: stackful contexts on its one host thread, fair by run
 * time, all of nice 0.
 *
 * sched.c APIs:
 *	schedule, cond_resched, yield, wake_up, sched_tick
 * kthread.c APIs:
 *	kthread_create, kthread_run, kthread_exit
 * wait.c APIs:
 *	wake_up_remote, wakes_of_others
 *	kiln_wait_prepare, kiln_wait_finish, kiln_wake	hosted.h
 * workqueue.c APIs:
 *	kiln_queue_work and others	hosted.h: one item at a time, CPU-intensive
 */
#ifndef KILN_SCHED_H
#define KILN_SCHED_H

#include <kiln/cpu.h>

/* Run another task if there is one that should. Sleeps if state says so. */
void schedule(void);
bool cond_resched(void);
void yield(void);
void wake_up(struct task *task);
void sched_tick(struct cpu *cpu);
bool need_resched(void);

/* NULL when all of the CPU's tasks are taken. It sleeps until it is woken. */
struct task *kthread_create(void (*fn)(void *arg), void *arg, const char *name);
/* The same, runnable at once. */
struct task *kthread_run(void (*fn)(void *arg), void *arg, const char *name);
void kthread_exit(void);

/* Wake a task of another CPU: it takes note at its next interrupt or switch. */
void wake_up_remote(struct task *task);
void wakes_of_others(struct cpu *cpu);

/* switch.S: leave @prev's stack for that of @next. */
void cpu_switch(u64 *prev_sp, u64 next_sp);
void cpu_task_start(void);

#endif
