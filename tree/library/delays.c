// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Measures how long softirqs wait while the tree's functions run. A delay is the time from an
 * interrupt to the start of the softirq that it raises. Several interrupts may arrive before the
 * softirq starts, for example during one long FPU section; each of them has its own delay.
 */
#include <linux/compiler.h>
#include <linux/types.h>

#include "kiln/abi/hosted.h"
#include "kiln/tree.h"

#define KILN_SOFTIRQ 7		/* IRQ_POLL_SOFTIRQ, which is unused here */
#define WAITING 256		/* maximum number of interrupts that wait for one softirq */

u64 kiln_glue_delays_start(struct kiln_library_delays *delays);
u64 kiln_glue_delays_stop(void *unused);

static struct kiln_library_delays *kiln_delays;
static u64 kiln_arrived[WAITING];	/* arrival times of the interrupts */
static u32 kiln_first, kiln_next;	/* range of arrivals that wait for the softirq */

static u64 kiln_tsc(void)
{
	u32 low, high;

	asm volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (u64)high << 32 | low;
}

static void kiln_interrupt(void *cpu)
{
	const u32 next = READ_ONCE(kiln_next);

	if (next - READ_ONCE(kiln_first) < WAITING) {
		kiln_arrived[next % WAITING] = kiln_tsc();
		WRITE_ONCE(kiln_next, next + 1);
	}
	kiln_raise_softirq(KILN_SOFTIRQ);
}

/* Stores the delays. If another interrupt arrives meanwhile, it raises the softirq once more. */
static void kiln_softirq(void *cpu)
{
	const u64 now = kiln_tsc();
	const u32 next = READ_ONCE(kiln_next);
	struct kiln_library_delays *d = kiln_delays;
	u32 i;

	for (i = kiln_first; i != next; i++) {
		const u64 arrived = kiln_arrived[i % WAITING];

		/* If the interrupt arrived after the clock was read, its delay is 0. */
		if (d && d->count < d->room)
			d->ticks[d->count++] = arrived < now ? now - arrived : 0;
	}
	WRITE_ONCE(kiln_first, next);
}

u64 kiln_glue_delays_start(struct kiln_library_delays *delays)
{
	kiln_first = kiln_next;
	kiln_delays = delays;
	kiln_open_softirq(KILN_SOFTIRQ, kiln_softirq);
	kiln_on_interrupt(kiln_interrupt);
	return 0;
}

u64 kiln_glue_delays_stop(void *unused)
{
	kiln_on_interrupt(NULL);
	kiln_delays = NULL;
	return 0;
}
