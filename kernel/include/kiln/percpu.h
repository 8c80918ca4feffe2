/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Per-CPU data. The GS base of a CPU's host thread points to its struct cpu, so an access costs the
 * same as in a kernel: one instruction with a %gs prefix, which an interrupt cannot split.
 */
#ifndef KILN_PERCPU_H
#define KILN_PERCPU_H

#include <kiln/types.h>

struct cpu;
struct task;

/*
 * Read, write or add to a field of this CPU. The accesses are volatile, because an interrupt may
 * change a field between any two instructions.
 */
#define this_cpu_read(field)                                                 \
	({                                                                   \
		__typeof__(((struct cpu *)0)->field) v_;                     \
		__asm__ volatile("mov %%gs:%c1, %0"                          \
				 : "=r"(v_)                                  \
				 : "i"(__builtin_offsetof(struct cpu, field))); \
		v_;                                                          \
	})
/*
 * Emits @instruction with a register or constant as the source and a field of this CPU as the
 * destination.
 */
#define this_cpu_op(instruction, constraint, value, field)                   \
	__asm__ volatile(instruction " %0, %%gs:%c1"                         \
			 :                                                   \
			 : constraint(value), "i"(__builtin_offsetof(struct cpu, field)) \
			 : "memory", "cc")
#define this_cpu_write(field, value)                                         \
	do {                                                                 \
		const __typeof__(((struct cpu *)0)->field) v_ = (value);     \
		__asm__ volatile("mov %0, %%gs:%c1"                          \
				 :                                           \
				 : "r"(v_), "i"(__builtin_offsetof(struct cpu, field)) \
				 : "memory");                                \
	} while (0)
#define this_cpu_add(field, value)                                           \
	do {                                                                 \
		const __typeof__(((struct cpu *)0)->field) v_ = (value);     \
		if (sizeof(v_) == 8)                                         \
			this_cpu_op("addq", "er", (u64)v_, field);           \
		else                                                         \
			this_cpu_op("addl", "ir", (u32)v_, field);           \
	} while (0)
#define this_cpu_inc(field) this_cpu_add(field, 1)

#define this_cpu() this_cpu_read(self)
#define current this_cpu_read(current_task)

#endif
