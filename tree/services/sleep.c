// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Detects calls that may sleep in atomic context. Each service that may sleep calls may_sleep(),
 * even if it does not sleep in the particular case. The tree's own might_sleep() and cond_resched()
 * also call may_sleep().
 */
#include "service.h"

static bool watched;

void SERVICE(kiln_watch_sleep)(bool wanted)
{
	watched = wanted;
}

static const char *context(unsigned int why)
{
	unsigned char depth;

	__asm__ volatile("movb %%gs:%c1, %0" : "=q"(depth) : "i"(KILN_CPU_SECTION_DEPTH));
	if (depth)
		return "in an FPU section";
	if (why & KILN_ATOMIC_HARDIRQ)
		return "in a hardirq";
	if (why & KILN_ATOMIC_SOFTIRQ)
		return "in a softirq";
	if (why & KILN_ATOMIC_IRQS_OFF)
		return "with interrupts off";
	if (why & KILN_ATOMIC_BH_OFF)
		return "with softirqs off";
	return "with preemption off, as under a spin lock";
}

static void check(const char *what, const void *frame)
{
	unsigned int why;
	char text[160];

	if (!watched || !on_cpu)
		return;
	why = kiln_glue_atomic();
	if (!why)
		return;
	format(text, sizeof(text), "%s %s", what, context(why));
	/* kiln_violated() may be called here, because it neither allocates memory nor sleeps. */
	SERVICE(kiln_violated)("sleep", text, frame);
}

void may_sleep(const char *what)
{
	check(what, __builtin_frame_address(0));
}

void SERVICE(__might_sleep)(const char *file, int line)
{
	(void)file;
	(void)line;
	check("may sleep", __builtin_frame_address(0));
}

/*
 * @offsets is the preemption and RCU nesting that the caller will release before it sleeps. Calls
 * with such nesting are not checked.
 */
void SERVICE(__might_resched)(const char *file, int line, unsigned int offsets)
{
	(void)file;
	(void)line;
	if (!offsets)
		check("may give up the CPU (cond_resched)", __builtin_frame_address(0));
}
