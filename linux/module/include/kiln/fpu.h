/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Replaces kernel/include/kiln/fpu.h. The module uses Linux's sections (section.h), so the patterns
 * in kernel/load do not need the emulated CPU's sections.
 */
#ifndef KILN_FPU_H
#define KILN_FPU_H

#include <kiln/fpu_assert.h>

static __always_inline void fpu_default_mxcsr(void)
{
	static const u32 mxcsr = 0x1f80;

	asm volatile("ldmxcsr %0" : : "m"(mxcsr));
}

#endif
