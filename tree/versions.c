// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Functions that are called from the kernel's inline functions, and whose parameters depend on the
 * kernel's version and configuration. The tree's own build compiles this file with the tree's
 * headers, so that a mismatch causes a compile error instead of a wrong result.
 */
#include <linux/bug.h>
#include <linux/cpumask.h>
#include <linux/gfp.h>
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
 * These functions have had the suffix _noprof since 6.10, a buckets parameter since 6.11, and a
 * token parameter since 7.1.
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
 * In trees with kvmalloc_node_align(), this function has an alignment parameter. It can be ignored,
 * because every block is aligned to its size.
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

/* Since 7.0 a warning with arguments is raised by a call instead of a trap. */
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

/* Since 6.15 a per-CPU flag, which each CPU sets when it boots, allows FPU sections. */
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
 * Since 7.2 the preempt count may consist of two words, with a layout different from that of the
 * host's CPU. The tree then has its own count. Kiln's services update both counts. The tree's
 * inline functions update only the tree's count; the host adds these changes to its own count
 * before it reads that count.
 */
#ifdef CONFIG_HAS_SEPARATE_PREEMPT_RESCHED_BITS
DEFINE_PER_CPU_CACHE_HOT(unsigned long, __preempt_count) = PREEMPT_ENABLED;
/* The part of the tree's count that the host's count already includes. */
static DEFINE_PER_CPU(int, counted);

void kiln_glue_own_count(int n)
{
	__preempt_count_add(n);
}

/*
 * Adds to both counts. The order of the updates matters: an interrupt that arrives between them may
 * find the host's count too high, but must not find it negative.
 */
void kiln_glue_count(int n)
{
	if (n > 0)
		__preempt_count_add(n);
	raw_cpu_add(counted, n);
	if (n < 0)
		__preempt_count_add(n);
}

/*
 * Returns the changes that inline functions have made to the tree's count since the last call. Only
 * the bits for preemption and softirqs have the same meaning in both counts.
 */
int kiln_glue_uncounted(void)
{
	const int n = (s16)(preempt_count() - raw_cpu_read(counted));

	raw_cpu_add(counted, n);
	return n;
}

/*
 * Called when the host's CPU enters or leaves a context. @n is 0x10000 for a hardirq and 0x100000
 * for an NMI; smaller values are for softirqs.
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

/* The GFP flag that is set for allocations that may sleep. */
extern const unsigned int kiln_glue_gfp_sleeps;
const unsigned int kiln_glue_gfp_sleeps = (__force unsigned int)__GFP_DIRECT_RECLAIM;
