/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A check that the caller of a SIMD function has opened an FPU section. This is the only place
 * where ciphers/ deals with sections: callers open and close them (<kiln/fpu.h>).
 */
#ifndef KILN_FPU_ASSERT_H
#define KILN_FPU_ASSERT_H

#include <kiln/types.h>

/*
 * The first statement of every SIMD entry point. With KILN_CHECKS it traps outside a section (with
 * UD2, like the kernel's BUG()); without KILN_CHECKS it compiles to nothing.
 */
#ifdef KILN_CHECKS
#include <kiln/cpu.h>

static __always_inline void assert_fpu_section(void)
{
	if (unlikely(this_cpu_read(section_depth) <= this_cpu_read(section_base)))
		__builtin_trap();
}
#else
static __always_inline void assert_fpu_section(void)
{
}
#endif

#endif
