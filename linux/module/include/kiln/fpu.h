/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * In place of kernel/include/kiln/fpu.h: sections are Linux's own (section.h), so the
 * ciphers need nothing of the emulated CPU.
 */
#ifndef KILN_FPU_H
#define KILN_FPU_H

#include <kiln/types.h>

/* For ciphers that open a section themselves: the series that user land measures. */
void kiln_fpu_begin(void);
void kiln_fpu_end(void);

#define kernel_fpu_begin kiln_fpu_begin
#define kernel_fpu_end kiln_fpu_end
#define kernel_fpu_begin_untimed kiln_fpu_begin
#define kernel_fpu_end_untimed kiln_fpu_end

/* Linux counts its sections where nobody can read them. */
static __always_inline void assert_fpu_section(void)
{
}

static __always_inline void fpu_default_mxcsr(void)
{
	static const u32 mxcsr = 0x1f80;

	asm volatile("ldmxcsr %0" : : "m"(mxcsr));
}

#endif
