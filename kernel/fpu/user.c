// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The user FPU state of a task. It stays in the registers until a section needs them, and is
 * restored before the task returns to user mode, at most once per kernel entry.
 */
#include <kiln/fpu.h>
#include <kiln/preempt.h>

static void save(struct task *task)
{
	task->flags |= TF_NEED_FPU_LOAD;
	fpstate_save(&task->user_fpu);
	this_cpu_inc(stats.user_saves);
}

void fpu_user_save(void)
{
	struct task *task = current;

	if (unlikely(!(task->flags & (TF_KTHREAD | TF_NEED_FPU_LOAD))))
		save(task);
}

/* Called with interrupts off, so that nothing can use the FPU before user mode is reached. */
void fpu_user_restore(void)
{
	struct task *task = current;

	/* A hosted tree restores the state of its own tasks; all other tasks use user_fpu. */
	if (unlikely(fpu_policy->user_restore) && task->foreign) {
		this_cpu_add(stats.user_restores, fpu_policy->user_restore());
		return;
	}
	if (!(task->flags & TF_NEED_FPU_LOAD))
		return;
	fpstate_restore(&task->user_fpu);
	task->flags &= ~TF_NEED_FPU_LOAD;
	this_cpu_inc(stats.user_restores);
}

/*
 * Saves those registers of @prev that would be lost in the task switch, and restores those that
 * @next needs immediately. Called with interrupts off.
 */
void fpu_switch(struct task *prev, struct task *next)
{
	if (unlikely(fpu_policy->switch_to) && next->foreign) {
		fpu_policy->switch_to(prev->foreign, next->foreign);
		return;
	}
	if (!(prev->flags & (TF_KTHREAD | TF_NEED_FPU_LOAD)))
		save(prev);
	if (fpu_policy->switch_out)
		fpu_policy->switch_out(prev);
	if (fpu_policy->switch_in)
		fpu_policy->switch_in(next);
}
