// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The tree's softirqs, BH-disabled regions and preemption points. kernel/cpu implements them. */
#include "service.h"

#define SOFTIRQS 10
/* The preempt count of a task that can be preempted. */
#define NOTHING_COUNTED ((int)0x80000000)

static void (*handlers[SOFTIRQS])(void *action);

void SERVICE(__local_bh_disable_ip)(unsigned long ip, unsigned int count)
{
	(void)ip;
	also_count((int)count);
	kiln_local_bh_disable(count);
}

void SERVICE(__local_bh_enable_ip)(unsigned long ip, unsigned int count)
{
	(void)ip;
	if (!kiln_glue_own_count) {
		kiln_local_bh_enable(count);
		return;
	}
	/*
	 * Normally, only the tree's own count includes the BH-disable that ends here. If an
	 * interrupt has arrived since the BH-disable began, the host's count includes it too.
	 */
	kiln_glue_own_count(-(int)count);
	if (cpu_read(CPU_PREEMPT_COUNT) != NOTHING_COUNTED ||
	    (uint16_t)cpu_read(KILN_CPU_SOFTIRQ_PENDING))
		kiln_bh_enabled();
}

/* Subtracts SOFTIRQ_DISABLE_OFFSET from the preempt count. Does not run pending softirqs. */
void SERVICE(_local_bh_enable)(void)
{
	if (kiln_glue_own_count)
		kiln_glue_own_count(-0x200);
	else
		cpu_add(CPU_PREEMPT_COUNT, -0x200);
}

void SERVICE(raise_softirq)(unsigned int nr)
{
	const unsigned long flags = kiln_local_irq_save();

	kiln_raise_softirq(nr);
	kiln_local_irq_restore(flags);
}

void SERVICE(raise_softirq_irqoff)(unsigned int nr)
{
	kiln_raise_softirq(nr);
}

void SERVICE(__raise_softirq_irqoff)(unsigned int nr)
{
	kiln_raise_softirq(nr);
}

void SERVICE(do_softirq)(void)
{
	kiln_do_softirq();
}

/* Registers the handler on all CPUs, including those that boot later. */
void SERVICE(open_softirq)(int nr, void (*handler)(void *action))
{
	if ((unsigned int)nr >= SOFTIRQS)
		give_up("a softirq with an invalid number");
	handlers[nr] = handler;
	kiln_open_softirq((unsigned int)nr, handler);
}

void softirq_cpu_starts(void)
{
	unsigned int nr;

	for (nr = 0; nr < SOFTIRQS; nr++)
		if (handlers[nr])
			kiln_open_softirq(nr, handlers[nr]);
}

/*
 * Functions that a preemptible tree calls to give up the CPU. Inline assembly calls them, in some
 * cases through a static call, so they must preserve all registers.
 */
#define THUNK(name)                                             \
	__asm__(".pushsection .text\n"                          \
		".globl svc_" name "\n"                         \
		".type svc_" name ", @function\n"               \
		"svc_" name ":\n"                               \
		"	jmp	kiln_preempt_schedule_thunk\n"  \
		"	.balign 8\n"                            \
		".popsection\n")

THUNK("preempt_schedule_thunk");
THUNK("preempt_schedule_notrace_thunk");
THUNK("__SCT__preempt_schedule");
THUNK("__SCT__preempt_schedule_notrace");

void SERVICE(preempt_schedule)(void)
{
	kiln_preempt_schedule();
}

void SERVICE(preempt_schedule_notrace)(void)
{
	kiln_preempt_schedule();
}

__asm__(".pushsection .text\n"
	".globl svc___SCT__cond_resched, svc___SCT__might_resched\n"
	"svc___SCT__cond_resched:\n"
	"svc___SCT__might_resched:\n"
	"	jmp	svc___cond_resched\n"
	"	.balign 8\n"
	".popsection\n");

/*
 * Static call keys. The services never use them, but inline code refers to them so that calls in
 * modules can be patched.
 */
void *SERVICE(__SCK__preempt_schedule)[2], *SERVICE(__SCK__preempt_schedule_notrace)[2];
void *SERVICE(__SCK__cond_resched)[2], *SERVICE(__SCK__might_resched)[2];
