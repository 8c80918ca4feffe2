// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Work done before a task returns to user mode. */
#include <kiln/context.h>
#include <kiln/cpu.h>
#include <kiln/fpu.h>
#include <kiln/sched.h>

#include "cpu_internal.h"

void gate_exit(void)
{
	settle_count(this_cpu());
	local_irq_disable();
	while (need_resched()) {
		local_irq_enable();
		schedule();
		local_irq_disable();
	}
	fpu_user_restore();
}
