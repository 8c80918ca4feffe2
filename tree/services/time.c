// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Time, from the TSC, which the loader has measured. Jiffies stand still: nothing here
 * may time out.
 */
#include "service.h"

unsigned long SERVICE(jiffies) = 4294937296ul;	/* INITIAL_JIFFIES at HZ=100 */
unsigned long SERVICE(loops_per_jiffy) = 1;

uint64_t now_ns(void)
{
	uint32_t low, high;
	uint64_t ticks;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	ticks = (uint64_t)high << 32 | low;
	return (uint64_t)(((unsigned __int128)ticks * boot.ns_per_tick) >> 32);
}

int64_t SERVICE(ktime_get)(void)
{
	return (int64_t)now_ns();
}

uint64_t SERVICE(random_get_entropy_fallback)(void)
{
	return now_ns();
}
