/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* FPU sections: where vector registers may be used. */
#ifndef KILN_FPU_H
#define KILN_FPU_H

#include <kiln/types.h>

/* Sections do not nest; a second begin is a bug, and so is an end without one. */
void kernel_fpu_begin(void);
void kernel_fpu_end(void);

/* Whether the calling CPU is inside a section. */
bool kernel_fpu_in_section(void);

/*
 * First statement of every SIMD entry point. With KILN_CHECKS it traps (ud2, as
 * the kernel's BUG does) outside a section; without, it costs nothing.
 */
#ifdef KILN_CHECKS
static __always_inline void assert_fpu_section(void)
{
	if (unlikely(!kernel_fpu_in_section()))
		__builtin_trap();
}
#else
static __always_inline void assert_fpu_section(void)
{
}
#endif

#endif
