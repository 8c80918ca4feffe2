// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Calls one function of an implementation for a test, in a given context and, if needed, in its own
 * FPU section.
 */
#include <kiln/abi/context.h>
#include <kiln/abi/load.h>
#include <kiln/context.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>

#include "common.h"
#include "patterns.h"

/*
 * Nine is the maximum number of arguments of any function. Functions with fewer arguments ignore
 * the rest.
 */
typedef u64 nine_t(u64, u64, u64, u64, u64, u64, u64, u64, u64);

u64 call_nine(const void *fn, const u64 *arg)
{
	return ((nine_t *)fn)(arg[0], arg[1], arg[2], arg[3], arg[4], arg[5], arg[6], arg[7],
			      arg[8]);
}

static u64 call_through(const struct kiln_call *call, const void *fn)
{
	return call->through ? call->through(call->registers, fn, call->arg) :
			       call_nine(fn, call->arg);
}

static void call_there(void *arg)
{
	struct kiln_call *call = arg;
	const void *fn = call->fn;
	bool section = call->section;

	/* A task may always open a section, so check only the other contexts. */
	if (section && call->context > KILN_TASK_BH_OFF && !irq_fpu_usable()) {
		if (!call->scalar)
			return;
		fn = call->scalar;
		section = false;
		call->fell_back = true;
	}
	call->preempt_count = preempt_count();
	if (section) {
		if (call->step)
			set_trap_flag(true);
		kernel_fpu_begin();
		call->result = call_through(call, fn);
		kernel_fpu_end();
		if (call->step)
			set_trap_flag(false);
	} else {
		call->result = call_through(call, fn);
	}
	call->done = true;
}

u64 kiln_call(void *arg)
{
	struct kiln_call *call = arg;

	call->done = call->fell_back = false;
	run_in_context(call->context, call_there, call);
	return call->result;
}
