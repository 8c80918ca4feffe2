/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Execution contexts of a CPU, from task to NMI. */
#ifndef KILN_ABI_CONTEXT_H
#define KILN_ABI_CONTEXT_H

enum kiln_context {
	KILN_TASK,
	KILN_TASK_BH_OFF,
	KILN_SOFTIRQ,
	KILN_HARDIRQ,
	KILN_HARDIRQ_OVER_BH_OFF,
	KILN_HARDIRQ_OVER_SOFTIRQ,
	KILN_NMI,
	KILN_NR_CONTEXTS
};

#endif
