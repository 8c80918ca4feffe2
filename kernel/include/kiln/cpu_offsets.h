/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Offsets in struct cpu that assembly and the host's signal handler use; cpu.c
 * asserts that they are right.
 */
#ifndef KILN_CPU_OFFSETS_H
#define KILN_CPU_OFFSETS_H

#define KILN_CPU_IRQS_OFF 72
#define KILN_CPU_IRQ_PENDING 76
#define KILN_CPU_KERNEL_MODE 80
#define KILN_CPU_INJECTING 84

#endif
