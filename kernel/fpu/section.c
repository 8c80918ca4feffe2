// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * FPU sections on a CPU that nothing interrupts: one flag for each CPU, which is
 * a host thread here.
 */
#include <kiln/fpu.h>

static __thread bool in_section;

void kernel_fpu_begin(void)
{
	if (unlikely(in_section))
		__builtin_trap();
	in_section = true;
	barrier();
}

void kernel_fpu_end(void)
{
	barrier();
	if (unlikely(!in_section))
		__builtin_trap();
	in_section = false;
}

bool kernel_fpu_in_section(void)
{
	return in_section;
}
