// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Policy bh-off, which x86 has used since Linux 6.15: a section also disables softirqs, unless
 * interrupts are already off. Softirqs raised during the section run at its end.
 */
#include <kiln/fpu.h>
#include <kiln/preempt.h>

static bool bh_off_usable(void)
{
	const u32 count = preempt_count();

	if (WARN_ON(count & NMI_MASK) || this_cpu_read(in_kernel_fpu))
		return false;
	return !(count & HARDIRQ_MASK) || !(count & SOFTIRQ_MASK);
}

static void bh_off_begin(void)
{
	if (!irqs_disabled())
		local_bh_disable();
	WARN_ON(!bh_off_usable());
	this_cpu_write(in_kernel_fpu, true);
	fpu_user_save();
	fpu_default_mxcsr();
}

static void bh_off_end(void)
{
	WARN_ON(!this_cpu_read(in_kernel_fpu));
	this_cpu_write(in_kernel_fpu, false);
	if (!irqs_disabled())
		local_bh_enable();
}

const struct fpu_policy fpu_bh_off = {
	.name = "bh-off",
	.begin = bh_off_begin,
	.end = bh_off_end,
	.usable = bh_off_usable,
};
