/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A module that answers questions about the kernel that it is loaded into. That kernel runs either
 * in ring 0 or as user mode Linux.
 *
 * ask.c: the file /proc/kiln, to which questions are written and from which answers are read
 * where.c APIs:
 *	where_interrupt, where_run
 * scene.c APIs:
 *	scene_ask
 * requests.c APIs:
 *	requests_ask
 * costs.c APIs:
 *	costs_ask
 * nested.c APIs:
 *	nested_ask
 */
#ifndef KILN_FIDELITY_H
#define KILN_FIDELITY_H

#include <linux/preempt.h>
#include <linux/types.h>

/*
 * Returns the preempt count in the layout of the emulated CPU, with hardirqs from bit 16 and NMIs
 * from bit 20. Since Linux 7.2, hardirqs are at bit 24 and NMIs at bit 28, and the bits
 * just below them count how many times hardirqs have been disabled. This function leaves that count
 * out.
 */
static inline u32 usual_preempt_count(void)
{
	const u32 count = preempt_count();

	return (count & (PREEMPT_MASK | SOFTIRQ_MASK)) |
	       (count & HARDIRQ_MASK) >> HARDIRQ_SHIFT << 16 |
	       (count & NMI_MASK) >> NMI_SHIFT << 20;
}

/* The answer that has been written so far. Text that does not fit is cut off. */
struct answer {
	char *text;
	size_t len, size;
};

__printf(2, 3) void answer(struct answer *to, const char *format, ...);

/* The values match enum kiln_context in kernel/include/kiln/abi/context.h. */
enum where {
	WHERE_TASK,
	WHERE_TASK_BH_OFF,
	WHERE_SOFTIRQ,
	WHERE_HARDIRQ,
	WHERE_HARDIRQ_OVER_BH_OFF,
	WHERE_HARDIRQ_OVER_SOFTIRQ,
	WHERE_NR
};

/*
 * Raises a hardirq on this CPU whose handler calls @fn, and waits until the handler has returned.
 * Returns false if the hardirq did not occur. Must not be called from a hardirq.
 */
bool where_interrupt(void (*fn)(void *data), void *data);

/* Calls @fn in the given context, like run_in_context() of the emulated CPU. */
bool where_run(enum where where, void (*fn)(void *data), void *data);

/*
 * One function per kind of question. @question is the text after the name of the kind. The
 * functions return 0 or an error.
 */
int scene_ask(char *question, struct answer *to);
int requests_ask(char *question, struct answer *to);
int costs_ask(char *question, struct answer *to);
int nested_ask(char *question, struct answer *to);

#endif
