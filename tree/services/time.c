// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Time, from the host's clock. Jiffies stand still: nothing here may time out.
 */
#include <time.h>

#include "service.h"

unsigned long SERVICE(jiffies) = 4294937296ul;	/* INITIAL_JIFFIES at HZ=100 */
unsigned long SERVICE(loops_per_jiffy) = 1;

int64_t SERVICE(ktime_get)(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000l + t.tv_nsec;
}

uint64_t SERVICE(random_get_entropy_fallback)(void)
{
	return (uint64_t)SERVICE(ktime_get)();
}
