// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Policy legacy, which x86 used up to Linux 6.14: a section disables only preemption. A softirq
 * that interrupts a section cannot use the FPU.
 */
#include <kiln/fpu.h>
#include <kiln/preempt.h>

static bool legacy_usable(void)
{
	const u32 count = preempt_count();

	if (likely(!(count & (NMI_MASK | HARDIRQ_MASK))))
		return !this_cpu_read(in_kernel_fpu);
	if (WARN_ON(count & NMI_MASK) || this_cpu_read(in_kernel_fpu))
		return false;
	return !(count & SOFTIRQ_MASK);
}

static void legacy_begin(void)
{
	preempt_disable();
	WARN_ON(!legacy_usable());
	this_cpu_write(in_kernel_fpu, true);
	fpu_user_save();
	fpu_default_mxcsr();
}

static void legacy_end(void)
{
	WARN_ON(!this_cpu_read(in_kernel_fpu));
	this_cpu_write(in_kernel_fpu, false);
	preempt_enable();
}

const struct fpu_policy fpu_legacy = {
	.name = "legacy",
	.begin = legacy_begin,
	.end = legacy_end,
	.usable = legacy_usable,
};
