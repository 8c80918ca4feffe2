/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Declarations that only the files of cpu/ share. */
#ifndef KILN_CPU_INTERNAL_H
#define KILN_CPU_INTERNAL_H

#include <kiln/abi/hosted.h>
#include <kiln/cpu.h>

/* softirq.c: called with interrupts off; enables them while softirq handlers run. */
void do_softirq_irqs_off(void);

/* watchdog.c: called by an interrupt that interrupted a section. */
void watchdog_look(struct cpu *cpu);

/* sched.c: called with interrupts off, at the end of an interrupt. */
void preempt_schedule_irq(void);

/* sched.c: called with interrupts off, or before the CPU starts running. */
void enqueue(struct cpu *cpu, struct task *task);

/* kthread.c: initialises an entry of the CPU's task table. */
void task_init(struct cpu *cpu, struct task *task, const char *name);
/* Called by switch.S on a new task's stack. */
void task_main(void);

/* wait.c: adds @task to the waiters on the address @on. Called with interrupts off. */
void wait_on(struct task *task, const volatile void *on);
void remove_waiters(struct cpu *cpu);

void ksoftirqd_start(void);
void kworker_start(void);

/* gate.c: called by entry.S before user mode is entered; returns with interrupts off. */
void gate_exit(void);

/* sched.c: called on interrupt entry if steal_limit is not zero. */
void forgive_steal(struct cpu *cpu);

#endif
