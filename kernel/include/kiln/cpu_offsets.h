/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Offsets in struct cpu for code that cannot use the structure: assembly, the host's signal
 * handler, and hosted trees. Static assertions in cpu.c check them.
 */
#ifndef KILN_CPU_OFFSETS_H
#define KILN_CPU_OFFSETS_H

#define KILN_CPU_FOREIGN 0		/* current task_struct of a hosted tree */
#define KILN_CPU_PREEMPT_COUNT 8	/* preempt count in the kernel's layout */
#define KILN_CPU_NUMBER 12
#define KILN_CPU_SOFTIRQ_PENDING 40
#define KILN_CPU_IRQS_OFF 72
#define KILN_CPU_IRQ_PENDING 76
#define KILN_CPU_KERNEL_MODE 80
#define KILN_CPU_INJECTING 84
#define KILN_CPU_SECTION_DEPTH 99
#define KILN_CPU_SECTION_SKIP 101
#define KILN_CPU_SECTION_START 112
#define KILN_CPU_SECTIONS 192

/* struct cpu ends before this offset; the memory from here on belongs to the host. */
#define KILN_CPU_END 0xf0000

/*
 * Stack bytes cleared on exit from kernel mode. The cipher with the deepest stack uses 4030 bytes
 * (gcc 12).
 */
#define KILN_STACK_CLEARED 6144

#endif
