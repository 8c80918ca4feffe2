// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Policy nested-v1: the patch that policy nested is based on, as it was posted, without
 * corrections. If no section is open yet, it disables softirqs while it saves the user state, even
 * in a hardirq. Calling local_bh_enable() in a hardirq is a bug, and a debug kernel prints a
 * warning about it.
 */
#include <kiln/fpu.h>
#include <kiln/preempt.h>

static void nested_v1_begin(void)
{
	preempt_disable();
	WARN_ON(!nested_usable());
	if (this_cpu_read(in_kernel_fpu)) {
		WARN_ON(in_task());
		fpstate_save(this_cpu_read(nested_area));
		this_cpu_inc(stats.nested_saves);
	} else {
		local_bh_disable();
		fpu_user_save();
		if (in_task())
			this_cpu_write(in_kernel_fpu, true);
		local_bh_enable();
	}
	fpu_default_mxcsr();
}

const struct fpu_policy fpu_nested_v1 = {
	.name = "nested-v1",
	.begin = nested_v1_begin,
	.end = nested_end,
	.usable = nested_usable,
};
