// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Time. It is derived from the TSC, whose frequency the loader measures. Jiffies are updated at
 * each tick, whenever no task can run, and when a task starts to wait. If code polls jiffies in a
 * loop, the loader provides a clock thread that calls kiln_image_jiffies().
 *
 * Waits with a timeout are kept in a list, which is checked at each tick and whenever no task can
 * run.
 */
#include "service.h"

/*
 * Time in ns after which a test is reported as hanging, if all tasks sleep and no pending event
 * would wake one of them.
 */
#define HANGS_NS 20000000000ul

void kiln_image_jiffies(void);

volatile unsigned long SERVICE(jiffies);
unsigned long SERVICE(loops_per_jiffy) = 1;

static uint64_t start_ns;
static volatile unsigned char lock;
static struct deadline *first;
static volatile int waiting;

static uint64_t ticks_to_ns(uint64_t ticks)
{
	return (uint64_t)(((unsigned __int128)ticks * boot.ns_per_tick) >> 32);
}

uint64_t now_ns(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return ticks_to_ns((uint64_t)high << 32 | low);
}

void time_init(void)
{
	start_ns = now_ns();
	kiln_image_jiffies();
}

/*
 * Updates jiffies. As in the kernel, they overflow five minutes after start-up, in order to expose
 * wrong comparisons.
 */
void kiln_image_jiffies(void)
{
	const uint64_t passed = (now_ns() - start_ns) / (1000000000ul / kiln_glue_hz);

	SERVICE(jiffies) = (unsigned int)-(300 * (int)kiln_glue_hz) + passed;
}

void deadline_start(struct deadline *d, const volatile void *on, unsigned long jiffies)
{
	unsigned long flags;

	kiln_image_jiffies();
	d->on = on;
	d->never = (long)jiffies < 0 || jiffies == (unsigned long)MAX_TIMEOUT;
	d->at = SERVICE(jiffies) + jiffies;
	d->given = jiffies;
	if (d->never)
		return;
	flags = lock_irq(&lock);
	d->next = first;
	d->prev = &first;
	if (first)
		first->prev = &d->next;
	first = d;
	waiting++;
	unlock_irq(&lock, flags);
}

unsigned long deadline_left(const struct deadline *d)
{
	long left;

	if (d->never)
		return d->given;
	kiln_image_jiffies();
	left = (long)(d->at - SERVICE(jiffies));
	return left > 0 ? (unsigned long)left : 0;
}

bool deadline_over(const struct deadline *d)
{
	return !deadline_left(d);
}

void deadline_end(struct deadline *d)
{
	unsigned long flags;

	if (d->never)
		return;
	flags = lock_irq(&lock);
	*d->prev = d->next;
	if (d->next)
		d->next->prev = d->prev;
	waiting--;
	unlock_irq(&lock, flags);
}

static void wake_late(void)
{
	const struct deadline *d;
	unsigned long flags;

	kiln_image_jiffies();
	if (!waiting)
		return;
	flags = lock_irq(&lock);
	for (d = first; d; d = d->next)
		if ((long)(d->at - SERVICE(jiffies)) <= 0)
			kiln_wake(d->on);
	unlock_irq(&lock, flags);
}

/*
 * Hooks that kernel/cpu calls. time_tick() is called at each tick, in hardirq context. time_idle()
 * is called when no task can run. @since is the time for which no task has been able to run, in TSC
 * ticks.
 */
void time_tick(void)
{
	wake_late();
}

void time_idle(unsigned long since)
{
	const uint64_t ns = ticks_to_ns(since);

	wake_late();
	if (waiting)
		return;
	threads_idle(ns);
	if (boot.lonely && ns > HANGS_NS)
		test_hangs("every thread waits for another: deadlock");
}

int64_t SERVICE(ktime_get)(void)
{
	return (int64_t)now_ns();
}

uint64_t SERVICE(random_get_entropy_fallback)(void)
{
	return now_ns();
}

unsigned long SERVICE(msleep_interruptible)(unsigned int ms)
{
	struct deadline deadline;
	const unsigned long jiffies = (ms * (unsigned long)kiln_glue_hz + 999) / 1000 + 1;

	may_sleep("calls msleep()");
	deadline_start(&deadline, &deadline, jiffies);
	for (;;) {
		kiln_wait_prepare(&deadline);
		if (deadline_over(&deadline))
			break;
		give_cpu();
	}
	kiln_wait_finish();
	deadline_end(&deadline);
	return 0;
}

void SERVICE(msleep)(unsigned int ms)
{
	SERVICE(msleep_interruptible)(ms);
}

/* Must match the tree's struct timespec64. */
struct timespec {
	int64_t seconds;
	long ns;
};

static struct timespec split(int64_t seconds, int64_t ns)
{
	seconds += ns / 1000000000;
	ns %= 1000000000;
	if (ns < 0) {
		ns += 1000000000;
		seconds--;
	}
	return (struct timespec){ seconds, ns };
}

struct timespec SERVICE(ns_to_timespec64)(int64_t ns)
{
	return split(0, ns);
}

void SERVICE(set_normalized_timespec64)(struct timespec *time, int64_t seconds, int64_t ns)
{
	*time = split(seconds, ns);
}

void SERVICE(ktime_get_ts64)(struct timespec *time)
{
	*time = split(0, (int64_t)now_ns());
}
