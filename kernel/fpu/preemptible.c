// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Policy preemptible, which arm64 uses in Linux 6.12: a section disables nothing. Each task has a
 * second state area, into which a task switch or a softirq saves an interrupted section's
 * registers. A hardirq is not allowed to use the FPU.
 */
#include <kiln/fpu.h>
#include <kiln/preempt.h>

static bool preemptible_usable(void)
{
	if (WARN_ON(in_nmi()))
		return false;
	return !in_hardirq() && !irqs_disabled();
}

static void preemptible_begin(void)
{
	struct task *task = current;

	WARN_ON(!preemptible_usable());
	/* Neither a softirq nor a task switch may occur while the state is being saved. */
	local_bh_disable();
	if (task->flags & TF_KERNEL_FPSTATE) {
		WARN_ON(!in_serving_softirq());
		fpstate_save(&task->kernel_fpu);
		this_cpu_inc(stats.nested_saves);
	} else {
		fpu_user_save();
		if (!in_serving_softirq())
			task->flags |= TF_KERNEL_FPSTATE;
	}
	fpu_default_mxcsr();
	local_bh_enable();
}

static void preemptible_end(void)
{
	struct task *task = current;

	if (!(task->flags & TF_KERNEL_FPSTATE))
		return;
	if (in_serving_softirq())
		fpstate_restore(&task->kernel_fpu);
	else
		task->flags &= ~TF_KERNEL_FPSTATE;
}

static void preemptible_switch_out(struct task *task)
{
	if (task->flags & TF_KERNEL_FPSTATE) {
		fpstate_save(&task->kernel_fpu);
		this_cpu_inc(stats.task_saves);
	}
}

static void preemptible_switch_in(struct task *task)
{
	if (task->flags & TF_KERNEL_FPSTATE)
		fpstate_restore(&task->kernel_fpu);
}

const struct fpu_policy fpu_preemptible = {
	.name = "preemptible",
	.begin = preemptible_begin,
	.end = preemptible_end,
	.usable = preemptible_usable,
	.switch_out = preemptible_switch_out,
	.switch_in = preemptible_switch_in,
};
