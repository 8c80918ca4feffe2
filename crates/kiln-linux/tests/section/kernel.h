/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Replaces the parts of Linux and of the module that linux/module/section.c uses. There is one CPU,
 * whose state the test sets.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef unsigned long long u64;

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define asm __asm__

/* Called after each read of a module parameter. The test may change parameters in this function. */
void parameter_read(void);

#define READ_ONCE(x)                                            \
	({                                                      \
		__typeof__(x) v_ = *(volatile __typeof__(x) *)&(x); \
		parameter_read();                               \
		v_;                                             \
	})
#define module_param(...) _Static_assert(1, "")
#define module_param_cb(...) _Static_assert(1, "")
#define MODULE_PARM_DESC(...) _Static_assert(1, "")

struct kernel_param {
	int unused;
};

struct kernel_param_ops {
	int (*get)(char *to, const struct kernel_param *param);
};

#define DEFINE_PER_CPU(type, name) type name
#define __percpu
#define for_each_possible_cpu(cpu) for ((cpu) = 0; (cpu) < 1; (cpu)++)
#define per_cpu(variable, cpu) (*((void)(cpu), &(variable)))
#define this_cpu_read(field) (field)
#define this_cpu_write(field, value) ((field) = (value))
#define this_cpu_inc(field) ((field)++)
#define this_cpu_ptr(p) (p)
#define __alloc_percpu(size, align) aligned_alloc(align, size)
#define free_percpu(p) free(p)
#define sysfs_emit sprintf
#define pr_warn printf

/* The task that the simulated softirq interrupts. section.c compares its name with a parameter. */
static const struct {
	const char *comm;
} program = { "registers" }, *const current = &program;

extern int warnings, preempt_depth, linux_sections;
extern bool fpu_usable, serving_softirq;

#define WARN_ON_ONCE(condition)           \
	({                                \
		const bool c_ = (condition); \
		warnings += c_;           \
		c_;                       \
	})
#define preempt_disable() (preempt_depth++)
#define preempt_enable() (preempt_depth--)
#define in_serving_softirq() serving_softirq
#define in_hardirq() 0
#define in_nmi() 0
#define irq_fpu_usable() fpu_usable
#define kernel_fpu_begin() (linux_sections++)
#define kernel_fpu_end() (linux_sections--)
#define MXCSR_DEFAULT 0x1f80
#define CRYPTO_TFM_REQ_MAY_SLEEP 0x200
#define cond_resched() ((void)0)

/* The rest of this file replaces alg.h. */
#define KILN_ALG_H

enum { KILN_TIER_GENERIC, KILN_TIER_AESNI };

struct kiln_impl {
	u32 tier;
};

struct kiln_alg {
	const struct kiln_impl *impl, *scalar;
	u32 section_bytes;
};
