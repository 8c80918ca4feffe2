// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Policy nested (references: "x86/fpu: Allow nested in-kernel use of FPU", mended): a
 * softirq or hardirq that finds a section in progress saves the live registers to one
 * area of the CPU's and restores them at its end.
 *
 * One area is enough, because a hardirq over a softirq or over a BH-disabled task is
 * refused: depth is two at most. A task takes the FPU before it saves its user state,
 * so that whoever comes between finds it taken and puts back what it found.
 */
#include <kiln/fpu.h>
#include <kiln/preempt.h>

static bool nested_usable(void)
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
		/* A task cannot be interrupted by itself. */
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

static void nested_end(void)
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
