// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Repeats the save and restore of a nested section, with all registers in use, for timing. */
#include <kiln/abi/cpu.h>
#include <kiln/fpu.h>

#include "patterns.h"

u64 kiln_fpu_saves(void *arg)
{
	const struct kiln_fpu_saves *s = arg;
	struct fpstate *area;
	u64 n;

	kernel_fpu_begin_untimed();
	area = this_cpu_read(nested_area);
	clobber_registers();
	for (n = s->saves; n; n--) {
		fpstate_save(area);
		fpstate_reset_mxcsr();
		fpstate_restore(area);
	}
	fpstate_reset_mxcsr();
	kernel_fpu_end_untimed();
	return 0;
}
