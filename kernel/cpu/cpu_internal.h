/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the files of cpu/ share among themselves only. */
#ifndef KILN_CPU_INTERNAL_H
#define KILN_CPU_INTERNAL_H

#include <kiln/cpu.h>

/* softirq.c: interrupts are off on entry and on return, and on while handlers run */
void do_softirq_irqs_off(void);

/* watchdog.c: an interrupt came into a section */
void watchdog_look(struct cpu *cpu);

/* sched.c: interrupts are off */
void preempt_schedule_irq(void);

/* sched.c: among the runnable ones; interrupts are off, or the CPU does not run yet */
void enqueue(struct cpu *cpu, struct task *task);

/* kthread.c: a task that has not run yet */
void task_init(struct cpu *cpu, struct task *task, const char *name);
/* Where switch.S begins one. */
void task_main(void);

/* wait.c: interrupts are off */
void wait_on(struct task *task, const volatile void *on);
void wait_none(struct cpu *cpu);

void ksoftirqd_start(void);
void kworker_start(void);

/* gate.S calls it on the way back to user mode; returns with interrupts off */
void gate_exit(void);

#endif
