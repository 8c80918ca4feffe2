// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Makes the tree's FPU code one of Kiln's FPU policies: the tree's own functions begin and end
 * sections, decide where a section is allowed, and save and restore the user's state. The tree's
 * own build compiles this file, like glue.c.
 *
 * The linker redirects the tree's FPU calls to the wrappers below. The wrappers count and time the
 * tree's sections as Kiln counts and times its own. Sections that Kiln itself opens under this
 * policy are counted by Kiln, not by the wrappers.
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

/*
 * Since 6.16 the FPU state is not a member of task_struct, but follows it in memory, and
 * switch_fpu() alone switches the state between tasks.
 */
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
 * Optional hooks around each FPU section of the tree. They are called before the section begins,
 * after it has begun, and before it ends. kiln_in_section is called only if kiln_before_section is
 * set.
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

/* Does what the inline function kernel_fpu_begin() does in a 64-bit kernel. */
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

/* Restores the user's FPU state on return to user mode, if necessary. Returns whether it did. */
static bool kiln_user_restore(void)
{
	if (likely(!test_thread_flag(TIF_NEED_FPU_LOAD)))
		return false;
	switch_fpu_return();
	return true;
}

/* Performs the FPU part of __switch_to(). The current task is still @from. */
static void kiln_switch_to(void *from, void *to)
{
	struct task_struct *prev = from, *next = to;

#ifdef KILN_SWITCH_FPU
	switch_fpu(prev, raw_smp_processor_id());
#else
	/* The first parameter is the task. Before 6.7 it was the task's FPU state. */
	if (!test_tsk_thread_flag(prev, TIF_NEED_FPU_LOAD))
		switch_fpu_prepare(_Generic(&switch_fpu_prepare,
					    void (*)(struct fpu *, int): (void *)&prev->thread.fpu,
					    default: (void *)prev),
				   raw_smp_processor_id());
	set_tsk_thread_flag(next, TIF_NEED_FPU_LOAD);
#endif
	(void)next;
}

/* Registers the policy, and returns its number in Kiln's table. */
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

/* Makes a task a user task. Its user FPU state is considered to be in the registers. */
void kiln_glue_fpu_task(struct task_struct *task)
{
	struct fpu *fpu;

	/* Clear these flags, because some trees do not return the FPU state of a kthread. */
	task->flags &= ~(PF_KTHREAD | PF_USER_WORKER);
#ifdef KILN_SWITCH_FPU
	fpu = x86_task_fpu(task);
#else
	fpu = &task->thread.fpu;
#endif
	fpstate_reset(fpu);
	fpu->last_cpu = -1;
}
