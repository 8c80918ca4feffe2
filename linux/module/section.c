// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Sections of ciphers that open one themselves.
 */
#include "section.h"

/* What <kiln/fpu.h> calls kernel_fpu_begin and kernel_fpu_end. */
void kiln_fpu_begin(void)
{
	kernel_fpu_begin();
}

void kiln_fpu_end(void)
{
	kernel_fpu_end();
}
