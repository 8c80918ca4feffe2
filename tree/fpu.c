// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The tree as an FPU policy: its own functions begin and end sections, say where one may
 * be, save and restore what is the user's. Compiled by the tree's own build, like
 * glue.c.
 *
 * The link sends the calls of the tree's own code to the functions below, which count
 * and time the section as Kiln does its own. A section that Kiln opens under this policy
 * is counted there.
 */
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/version.h>
#include <asm/fpu/api.h>
#include <asm/fpu/sched.h>
#include <asm/fpu/types.h>
#include <asm/processor.h>

#include "kiln/abi/hosted.h"

#ifndef PF_USER_WORKER
#define PF_USER_WORKER PF_IO_WORKER
#endif

/* The state lies behind the task and not in it, and one function switches it. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#define KILN_SWITCH_FPU
#endif

void fpstate_reset(struct fpu *fpu);

void __real_kernel_fpu_begin_mask(unsigned int mask);
void __wrap_kernel_fpu_begin_mask(unsigned int mask);
void __real_kernel_fpu_end(void);
void __wrap_kernel_fpu_end(void);

extern void (*kiln_before_section)(void);
extern void (*kiln_in_section)(void);
extern void (*kiln_ends_section)(void);
u64 kiln_glue_fpu_policy(void *unused);
void kiln_glue_fpu_task(struct task_struct *task);

/*
 * Called around each section of the tree's code, if they are set: before it begins; in it, first, for which the first must be set,
 * too; in it, last.
 */
void (*kiln_before_section)(void);
void (*kiln_in_section)(void);
void (*kiln_ends_section)(void);

static noinline void kiln_begin_watched(unsigned int mask)
{
	kiln_before_section();
	kiln_section_begin(__real_kernel_fpu_begin_mask(mask));
	if (kiln_in_section)
		kiln_in_section();
}

void __wrap_kernel_fpu_begin_mask(unsigned int mask)
{
	if (unlikely(kiln_before_section)) {
		kiln_begin_watched(mask);
		return;
	}
	kiln_section_begin(__real_kernel_fpu_begin_mask(mask));
}

void __wrap_kernel_fpu_end(void)
{
	if (unlikely(kiln_ends_section))
		kiln_ends_section();
	kiln_section_end(__real_kernel_fpu_end());
}

/* As kernel_fpu_begin(), which is inline, has it for 64 bits. */
static void kiln_begin(void)
{
	__real_kernel_fpu_begin_mask(KFPU_MXCSR);
}

static void kiln_end(void)
{
	__real_kernel_fpu_end();
}

static bool kiln_usable(void)
{
	return irq_fpu_usable();
}

/* On the way to user mode. */
static bool kiln_user_restore(void)
{
	if (likely(!test_thread_flag(TIF_NEED_FPU_LOAD)))
		return false;
	switch_fpu_return();
	return true;
}

/* As __switch_to() has it; the current task is still @from. */
static void kiln_switch_to(void *from, void *to)
{
	struct task_struct *prev = from, *next = to;

#ifdef KILN_SWITCH_FPU
	switch_fpu(prev, raw_smp_processor_id());
#else
	/* Its first parameter is the task, before 6.7 the task's state. */
	if (!test_tsk_thread_flag(prev, TIF_NEED_FPU_LOAD))
		switch_fpu_prepare(_Generic(&switch_fpu_prepare,
					    void (*)(struct fpu *, int): (void *)&prev->thread.fpu,
					    default: (void *)prev),
				   raw_smp_processor_id());
	set_tsk_thread_flag(next, TIF_NEED_FPU_LOAD);
#endif
	(void)next;
}

/* Its number among Kiln's policies. */
u64 kiln_glue_fpu_policy(void *unused)
{
	static const struct kiln_fpu_ops ops = {
		.name = "tree",
		.begin = kiln_begin,
		.end = kiln_end,
		.usable = kiln_usable,
		.user_restore = kiln_user_restore,
		.switch_to = kiln_switch_to,
	};

	(void)unused;
	return kiln_fpu_policy_add(&ops);
}

/* A task with a user mode, whose state is in the registers. */
void kiln_glue_fpu_task(struct task_struct *task)
{
	struct fpu *fpu;

	/* Some trees refuse to say where a kthread's state is. */
	task->flags &= ~(PF_KTHREAD | PF_USER_WORKER);
#ifdef KILN_SWITCH_FPU
	fpu = x86_task_fpu(task);
#else
	fpu = &task->thread.fpu;
#endif
	fpstate_reset(fpu);
	fpu->last_cpu = -1;
}
