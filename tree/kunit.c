// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Runs the tree's KUnit suites with the tree's own runner, one suite at a time. The suites print
 * KTAP, which services/printk.c sends to the parent.
 *
 * This file also provides hrtimers. The suites use them to call functions in hardirq context. An
 * expired timer fires at the CPU's next interrupt.
 */
#include <linux/glob.h>
#include <linux/hrtimer.h>
#include <linux/kconfig.h>
#include <linux/string.h>
#include <linux/version.h>

/* The suites in lib/crypto were added in 6.16. */
#if IS_ENABLED(CONFIG_KUNIT) && LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
#include <kunit/test.h>
#include <kiln/tree.h>

extern struct kunit_suite *const __kunit_suites_start[], *const __kunit_suites_end[];

void kiln_on_interrupt(void (*handler)(void *cpu));
unsigned long kiln_local_irq_save(void);
void kiln_local_irq_restore(unsigned long flags);
void kiln_tell_suite(const char *name, unsigned int cases);

void kiln_prove_set(struct kiln_prove *prove);
bool kiln_prove_timer(struct hrtimer *timer);

u64 kiln_glue_kunit_list(void *unused);
u64 kiln_glue_kunit_run(const struct kiln_kunit_order *order);

/* Sends the name of every suite to the parent. */
u64 kiln_glue_kunit_list(void *unused)
{
	struct kunit_suite *const *suite;
	struct kunit_case *c;

	for (suite = __kunit_suites_start; suite < __kunit_suites_end; suite++) {
		unsigned int cases = 0;

		kunit_suite_for_each_test_case((*suite), c)
			cases++;
		kiln_tell_suite((*suite)->name, cases);
	}
	return __kunit_suites_end - __kunit_suites_start;
}

static void kiln_skip_benchmark(struct kunit *test)
{
	kunit_skip(test, "a benchmark; --bench runs it");
}

/*
 * The armed timer. Suites arm at most one timer at a time. Interrupts must be disabled while this
 * variable is modified.
 */
static struct hrtimer *kiln_armed;
static bool kiln_in_timer;
/*
 * Points to the flag that tells the source of interrupts whether a timer is armed. NULL while no
 * suite is running.
 */
static unsigned char *kiln_armed_flag;

/* Makes @timer the armed timer. If @timer is NULL, no timer is armed afterwards. */
static void kiln_set_armed(struct hrtimer *timer)
{
	kiln_armed = timer;
	if (kiln_armed_flag)
		WRITE_ONCE(*kiln_armed_flag, timer != NULL);
}

/*
 * Runs the cases of a suite whose names match the pattern, or all cases if the pattern is NULL.
 * Returns the number of matching cases, including skipped ones, or a negative errno.
 */
u64 kiln_glue_kunit_run(const struct kiln_kunit_order *order)
{
	struct kunit_suite_set all = { __kunit_suites_start, __kunit_suites_end };
	struct kunit_suite_set set;
	struct kunit_case *c;
	char pattern[256];
	long cases = 0;
	int err = 0;

	snprintf(pattern, sizeof(pattern), "%s.%s", order->suite, order->cases ?: "*");
	set = kunit_filter_suites(&all, pattern, NULL, NULL, &err);
	if (err)
		return err;
	/* kunit_filter_suites() returns copies, so the suites may be modified. */
	if (set.start < set.end)
		kunit_suite_for_each_test_case((*set.start), c) {
			if (!order->bench && strstr(c->name, "benchmark"))
				c->run_case = kiln_skip_benchmark;
			cases++;
		}
	kiln_prove_set(order->prove);
	kiln_armed_flag = order->timer_armed;
	if (cases)
		kunit_run_tests(*set.start);
	kiln_armed_flag = NULL;
	kiln_prove_set(NULL);
	kunit_free_suite_set(set);
	return cases;
}

static enum hrtimer_restart (*kiln_function(struct hrtimer *timer))(struct hrtimer *)
{
	return ACCESS_PRIVATE(timer, function);
}

static void kiln_timer_interrupt(void *cpu)
{
	struct hrtimer *timer = kiln_armed;

	if (!timer || ktime_get() < hrtimer_get_expires(timer))
		return;
	kiln_in_timer = true;
	if (kiln_function(timer)(timer) == HRTIMER_NORESTART)
		kiln_set_armed(NULL);
	kiln_in_timer = false;
}

void hrtimer_setup_on_stack(struct hrtimer *timer,
			    enum hrtimer_restart (*function)(struct hrtimer *),
			    clockid_t clock, enum hrtimer_mode mode)
{
	memset(timer, 0, sizeof(*timer));
	ACCESS_PRIVATE(timer, function) = function;
}

void hrtimer_start_range_ns(struct hrtimer *timer, ktime_t at, u64 range,
			    const enum hrtimer_mode mode)
{
	unsigned long flags;

	if (kiln_prove_timer(timer))
		return;
	flags = kiln_local_irq_save();
	if (mode & HRTIMER_MODE_REL)
		at = ktime_add(ktime_get(), at);
	hrtimer_set_expires(timer, at);
	WARN_ON(kiln_armed && kiln_armed != timer);
	kiln_set_armed(timer);
	kiln_on_interrupt(kiln_timer_interrupt);
	kiln_local_irq_restore(flags);
}

/*
 * Cancels the timer. Timer functions run only in interrupts of this CPU, so the timer's function
 * cannot be running now, unless it calls hrtimer_cancel() itself.
 */
int hrtimer_cancel(struct hrtimer *timer)
{
	const unsigned long flags = kiln_local_irq_save();
	const int was = kiln_armed == timer;

	if (was && !kiln_in_timer) {
		kiln_set_armed(NULL);
		kiln_on_interrupt(NULL);
	}
	kiln_local_irq_restore(flags);
	return was;
}

u64 hrtimer_forward(struct hrtimer *timer, ktime_t now, ktime_t interval)
{
	ktime_t late = ktime_sub(now, hrtimer_get_expires(timer));
	u64 n;

	if (late < 0)
		return 0;
	n = late / interval + 1;
	hrtimer_set_expires(timer, hrtimer_get_expires(timer) + n * interval);
	return n;
}

/* hrtimer_cb_get_time() was inline before 6.18. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 18, 0)
ktime_t hrtimer_cb_get_time(const struct hrtimer *timer)
{
	return ktime_get();
}
#endif
#endif
