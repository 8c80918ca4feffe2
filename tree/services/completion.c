// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Completions. A waiter sleeps on the completion's address. complete() may be called in any
 * context. It does not access the completion after waking the waiter, because the waiter may free
 * it.
 */
#include "service.h"

#define DONE_FOR_ALL 0xffffffffu

/* Must match the start of the tree's struct completion. */
struct completion {
	volatile unsigned int done;
};

void SERVICE(complete)(struct completion *c)
{
	unsigned int done = c->done;

	while (done != DONE_FOR_ALL &&
	       !__atomic_compare_exchange_n(&c->done, &done, done + 1, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	kiln_wake(c);
}

void SERVICE(complete_all)(struct completion *c)
{
	__atomic_store_n(&c->done, DONE_FOR_ALL, __ATOMIC_RELEASE);
	kiln_wake(c);
}

bool SERVICE(try_wait_for_completion)(struct completion *c)
{
	unsigned int done = c->done;

	while (done && done != DONE_FOR_ALL)
		if (__atomic_compare_exchange_n(&c->done, &done, done - 1, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
	return done;
}

bool SERVICE(completion_done)(struct completion *c)
{
	return c->done;
}

void SERVICE(wait_for_completion)(struct completion *c)
{
	may_sleep("waits for a completion");
	if (SERVICE(try_wait_for_completion)(c))
		return;
	for (;;) {
		kiln_wait_prepare(c);
		if (SERVICE(try_wait_for_completion)(c))
			break;
		give_cpu();
	}
	kiln_wait_finish();
}

/* Does not return early, because signals do not exist here. */
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

/* Returns the number of remaining jiffies, which is at least 1, or 0 on timeout. */
unsigned long SERVICE(wait_for_completion_timeout)(struct completion *c,
						   unsigned long jiffies)
{
	struct deadline deadline;
	unsigned long left;

	may_sleep("waits for a completion");
	if (SERVICE(try_wait_for_completion)(c))
		return jiffies ? jiffies : 1;
	deadline_start(&deadline, c, jiffies);
	for (;;) {
		kiln_wait_prepare(c);
		left = deadline_left(&deadline);
		if (SERVICE(try_wait_for_completion)(c)) {
			left = left ? left : 1;
			break;
		}
		if (!left)
			break;
		give_cpu();
	}
	kiln_wait_finish();
	deadline_end(&deadline);
	return left;
}

long SERVICE(wait_for_completion_interruptible_timeout)(struct completion *c,
							unsigned long jiffies)
{
	return (long)SERVICE(wait_for_completion_timeout)(c, jiffies);
}

long SERVICE(wait_for_completion_killable_timeout)(struct completion *c,
						   unsigned long jiffies)
{
	return (long)SERVICE(wait_for_completion_timeout)(c, jiffies);
}
