/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Per-CPU data. The GS base of a CPU's host thread points to its struct cpu, so an access costs
 * what it costs in a kernel: one instruction with a %gs prefix, which an interrupt cannot
 * split.
 */
#ifndef KILN_PERCPU_H
#define KILN_PERCPU_H

#include <kiln/types.h>

struct cpu;
struct task;

/*
 * Read, write, add to one field of this CPU. Volatile, since an interrupt may
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
			__asm__ volatile("addq %0, %%gs:%c1"                 \
					 :                                   \
					 : "er"((u64)v_),                    \
					   "i"(__builtin_offsetof(struct cpu, field)) \
					 : "memory", "cc");                  \
		else                                                         \
			__asm__ volatile("addl %0, %%gs:%c1"                 \
					 :                                   \
					 : "ir"((u32)v_),                    \
					   "i"(__builtin_offsetof(struct cpu, field)) \
					 : "memory", "cc");                  \
	} while (0)
#define this_cpu_inc(field) this_cpu_add(field, 1)

#define this_cpu() this_cpu_read(self)
#define current this_cpu_read(current_task)

#endif
