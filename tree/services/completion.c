// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Completions. Whoever waits runs what is queued, then lets other threads run.
 */
#include "service.h"

#define DONE_FOR_ALL 0xffffffffu

/* Begins as the tree's struct completion does. */
struct completion {
	volatile unsigned int done;
};

void SERVICE(complete)(struct completion *c)
{
	if (c->done != DONE_FOR_ALL)
		c->done++;
	progress();
}

void SERVICE(complete_all)(struct completion *c)
{
	c->done = DONE_FOR_ALL;
	progress();
}

void SERVICE(wait_for_completion)(struct completion *c)
{
	while (!c->done)
		if (!run_work())
			yield();
	if (c->done != DONE_FOR_ALL)
		c->done--;
}

int SERVICE(wait_for_completion_interruptible)(struct completion *c)
{
	SERVICE(wait_for_completion)(c);
	return 0;
}

int SERVICE(wait_for_completion_killable)(struct completion *c)
{
	SERVICE(wait_for_completion)(c);
	return 0;
}

unsigned long SERVICE(wait_for_completion_timeout)(struct completion *c,
						   unsigned long jiffies)
{
	SERVICE(wait_for_completion)(c);
	return jiffies ? jiffies : 1;
}

long SERVICE(wait_for_completion_killable_timeout)(struct completion *c,
						   unsigned long jiffies)
{
	return (long)SERVICE(wait_for_completion_timeout)(c, jiffies);
}
