/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Offsets in struct cpu that others than C know: assembly, the host's signal handler, a
 * hosted tree's services. cpu.c asserts that they are right.
 */
#ifndef KILN_CPU_OFFSETS_H
#define KILN_CPU_OFFSETS_H

#define KILN_CPU_FOREIGN 0		/* a hosted tree's current task */
#define KILN_CPU_PREEMPT_COUNT 8	/* in the kernel's layout */
#define KILN_CPU_NUMBER 12
#define KILN_CPU_SOFTIRQ_PENDING 40
#define KILN_CPU_IRQS_OFF 72
#define KILN_CPU_IRQ_PENDING 76
#define KILN_CPU_KERNEL_MODE 80
#define KILN_CPU_INJECTING 84
#define KILN_CPU_SECTION_DEPTH 100
#define KILN_CPU_SECTION_SKIP 102
#define KILN_CPU_SECTION_START 112
#define KILN_CPU_SECTIONS 192

/* struct cpu ends before this: from here on the memory is the host's to use. */
#define KILN_CPU_END 0xf0000

#endif
