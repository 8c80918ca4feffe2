// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Policy none, which is deliberately broken: the FPU is always usable, and nothing is saved. Tests
 * must detect the resulting corruption.
 */
#include <kiln/fpu.h>
#include <kiln/preempt.h>

static bool none_usable(void)
{
	return true;
}

static void none_begin(void)
{
	preempt_disable();
	fpu_default_mxcsr();
}

static void none_end(void)
{
	preempt_enable();
}

const struct fpu_policy fpu_none = {
	.name = "none",
	.begin = none_begin,
	.end = none_end,
	.usable = none_usable,
};
