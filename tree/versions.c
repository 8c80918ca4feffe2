// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Functions that the kernel's inline functions call, with parameters that differ by version and
 * configuration. The tree's own build compiles this file against its headers, so a mismatch is a
 * compile error instead of a wrong result.
 */
#include <linux/bug.h>
#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/static_call.h>
#include <linux/version.h>

void kiln_glue_count(int n);
int kiln_glue_uncounted(void);
void kiln_glue_context(int n);
void kiln_glue_own_count(int n);
void *kiln_alloc(size_t size, gfp_t flags);
void kiln_warn(unsigned long ip, const char *file, unsigned int line);

/*
 * Since 6.10 the name has a suffix, since 6.11 the parameters include buckets, since 7.1 a token.
 */
#ifdef DECL_BUCKET_PARAMS
#ifndef DECL_KMALLOC_PARAMS
#define DECL_KMALLOC_PARAMS(size, b, token) DECL_BUCKET_PARAMS(size, b)
#endif

void *__kmalloc_node_noprof(DECL_KMALLOC_PARAMS(size, b, token), gfp_t flags, int node)
{
	return kiln_alloc(size, flags);
}

void *__kmalloc_node_track_caller_noprof(DECL_KMALLOC_PARAMS(size, b, token), gfp_t flags,
					 int node, unsigned long caller)
{
	return kiln_alloc(size, flags);
}

/*
 * Takes an alignment since kvmalloc_node_align. It can be ignored, because every block is aligned
 * to its size.
 */
#ifdef kvmalloc_node_align
void *__kvmalloc_node_noprof(DECL_KMALLOC_PARAMS(size, b, token), unsigned long align,
			     gfp_t flags, int node)
#else
void *__kvmalloc_node_noprof(DECL_KMALLOC_PARAMS(size, b, token), gfp_t flags, int node)
#endif
{
	return kiln_alloc(size, flags);
}
#endif

/* Since 7.0 a warning with arguments is a call instead of a trap. */
#ifdef HAVE_ARCH_BUG_FORMAT_ARGS
static void kiln_warn_trap(struct bug_entry *bug, ...)
{
#ifdef CONFIG_DEBUG_BUGVERBOSE
	kiln_warn(_RET_IP_, (const char *)&bug->file_disp + bug->file_disp, bug->line);
#else
	kiln_warn(_RET_IP_, NULL, 0);
#endif
}

DEFINE_STATIC_CALL(WARN_trap, kiln_warn_trap);
#endif

/* Since 6.15 a per-CPU flag says that the FPU may be used; each CPU's boot sets it. */
DECLARE_PER_CPU(bool, kernel_fpu_allowed) __weak;

static int __init kiln_allow_fpu(void)
{
	int cpu;

	if (&kernel_fpu_allowed)
		for_each_possible_cpu(cpu)
			per_cpu(kernel_fpu_allowed, cpu) = true;
	return 0;
}
early_initcall(kiln_allow_fpu);

/*
 * Since 7.2 the preempt count may be two words whose bits differ from those of the host's CPU. The
 * tree then keeps its own count. The services add to both counts; what inline functions add to the
 * tree's is passed on when the host asks.
 */
#ifdef CONFIG_HAS_SEPARATE_PREEMPT_RESCHED_BITS
DEFINE_PER_CPU_CACHE_HOT(unsigned long, __preempt_count) = PREEMPT_ENABLED;
/* The part of the tree's count that the host's count includes. */
static DEFINE_PER_CPU(int, counted);

void kiln_glue_own_count(int n)
{
	__preempt_count_add(n);
}

/*
 * The order matters: an interrupt between the two updates must find the host's count too high,
 * never negative.
 */
void kiln_glue_count(int n)
{
	if (n > 0)
		__preempt_count_add(n);
	raw_cpu_add(counted, n);
	if (n < 0)
		__preempt_count_add(n);
}

/* Preemption and softirqs. The bits above these differ from the host's. */
int kiln_glue_uncounted(void)
{
	const int n = (s16)(preempt_count() - raw_cpu_read(counted));

	raw_cpu_add(counted, n);
	return n;
}

/*
 * The host's CPU enters or leaves a context: 0x10000 is a hardirq, 0x100000 an NMI, smaller values
 * are softirqs.
 */
void kiln_glue_context(int n)
{
	switch (n) {
	case 0x10000:
		__preempt_count_add(HARDIRQ_OFFSET);
		break;
	case -0x10000:
		__preempt_count_sub(HARDIRQ_OFFSET);
		break;
	case 0x100000:
		__preempt_count_add(NMI_OFFSET);
		break;
	case -0x100000:
		__preempt_count_sub(NMI_OFFSET);
		break;
	default:
		kiln_glue_count(n);
	}
}
#endif
