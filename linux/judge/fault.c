// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A separate module that makes one mistake, which a debug kernel must report. It is a control for
 * `kiln linux dkms`: if a mistake is not reported, the absence of other reports proves nothing. The
 * module never stays loaded: loading fails with -ECANCELED after the mistake, and with -EOPNOTSUPP
 * if the kernel was built without the detector.
 */
#include <linux/compiler.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include <asm/fpu/api.h>

static char *mistake = "";
module_param(mistake, charp, 0444);
MODULE_PARM_DESC(mistake, "warning, sleep, fpu, lock, race or memory");

static void warn(void)
{
	WARN(1, "fault: a planted warning\n");
}

static void sleep_in_section(void)
{
	kernel_fpu_begin();
	might_sleep();
	kernel_fpu_end();
}

static void open_two_sections(void)
{
	kernel_fpu_begin();
	kernel_fpu_begin();
	kernel_fpu_end();
	kernel_fpu_end();
}

static DEFINE_SPINLOCK(lock);
static struct tasklet_struct tasklet;

static void take_lock(struct tasklet_struct *unused)
{
	spin_lock(&lock);
	spin_unlock(&lock);
}

/* Takes the lock in a task without disabling softirqs, and then in a softirq. */
static void share_lock_with_softirq(void)
{
	take_lock(NULL);
	tasklet_setup(&tasklet, take_lock);
	tasklet_schedule(&tasklet);
	/* This waits until the tasklet has run. */
	tasklet_kill(&tasklet);
}

enum { RACE_GAP_NS = 50000 };
static unsigned long shared;
static struct hrtimer timer;

static enum hrtimer_restart change_shared(struct hrtimer *self)
{
	shared++;
	hrtimer_forward_now(self, ns_to_ktime(RACE_GAP_NS));
	return HRTIMER_RESTART;
}

/*
 * KCSAN watches only one access in several thousand, and only for a few microseconds, so the race
 * is repeated for five seconds.
 */
static void race_with_interrupt(void)
{
	const unsigned long end = jiffies + 5 * HZ;

	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	timer.function = change_shared;
	hrtimer_start(&timer, ns_to_ktime(RACE_GAP_NS), HRTIMER_MODE_REL_PINNED_HARD);
	while (time_before(jiffies, end)) {
		unsigned long seen = shared;

		/* Without a use of the value, the compiler would leave out the read. */
		asm volatile("" : : "r"(seen) : "memory");
	}
	hrtimer_cancel(&timer);
}

static void read_past_end(void)
{
	enum { SIZE = 64 };
	u8 *buffer = kmalloc(SIZE, GFP_KERNEL), *end = buffer + SIZE;

	if (!buffer)
		return;
	OPTIMIZER_HIDE_VAR(end);
	(void)READ_ONCE(*end);
	kfree(buffer);
}

static const struct {
	const char *name;
	bool is_detected;
	void (*make)(void);
} mistakes[] = {
	{ "warning", IS_ENABLED(CONFIG_BUG), warn },
	{ "sleep", IS_ENABLED(CONFIG_DEBUG_ATOMIC_SLEEP), sleep_in_section },
	{ "fpu", IS_ENABLED(CONFIG_X86_DEBUG_FPU), open_two_sections },
	{ "lock", IS_ENABLED(CONFIG_PROVE_LOCKING), share_lock_with_softirq },
	{ "race", IS_ENABLED(CONFIG_KCSAN), race_with_interrupt },
	{ "memory", IS_ENABLED(CONFIG_KASAN), read_past_end },
};

static int __init fault_init(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(mistakes); i++) {
		if (strcmp(mistake, mistakes[i].name))
			continue;
		if (!mistakes[i].is_detected)
			return -EOPNOTSUPP;
		mistakes[i].make();
		return -ECANCELED;
	}
	return -EINVAL;
}

module_init(fault_init);

MODULE_DESCRIPTION("Mistakes that a debug kernel must report");
MODULE_LICENSE("Dual MIT/GPL");
