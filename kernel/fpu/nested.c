// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Policy nested: the patch "x86/fpu: Allow nested in-kernel use of FPU" with corrections. A softirq
 * or hardirq that interrupts a section saves the live registers to a per-CPU area and restores them
 * at the end of its own section.
 *
 * One area is enough: a hardirq that interrupts a softirq or a BH-disabled task is not allowed to
 * use the FPU, so the depth is at most two. A task sets in_kernel_fpu before it saves the user
 * state, so a softirq that interrupts it between these two steps saves and restores the user's live
 * registers.
 */
#include <kiln/fpu.h>
#include <kiln/preempt.h>

bool nested_usable(void)
{
	const u32 count = preempt_count();

	if (WARN_ON(count & NMI_MASK))
		return false;
	return !(count & HARDIRQ_MASK) || !(count & SOFTIRQ_MASK);
}

static void nested_begin(void)
{
	preempt_disable();
	WARN_ON(!nested_usable());
	if (this_cpu_read(in_kernel_fpu)) {
		/* A task must not open a section inside its own section. */
		WARN_ON(in_task());
		fpstate_save(this_cpu_read(nested_area));
		this_cpu_inc(stats.nested_saves);
	} else {
		if (in_task())
			this_cpu_write(in_kernel_fpu, true);
		fpu_user_save();
	}
	fpu_default_mxcsr();
}

void nested_end(void)
{
	if (!in_task() && this_cpu_read(in_kernel_fpu))
		fpstate_restore(this_cpu_read(nested_area));
	else
		this_cpu_write(in_kernel_fpu, false);
	preempt_enable();
}

const struct fpu_policy fpu_nested = {
	.name = "nested",
	.begin = nested_begin,
	.end = nested_end,
	.usable = nested_usable,
};
