// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Generates the traffic while the module is initialised, and reports the results in one line of the
 * log:
 *	kiln_traffic: KIND DRIVER workers N ms N operations N errors N wrong N max_ns N
 * `errors` is the number of failed calls, `wrong` the number of calls with wrong results, and
 * max_ns the duration of the longest call.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "traffic.h"

enum { MOST_WORKERS = 64, LONGEST_MS = 600000 };

static char *kind = "cipher-sessions";
module_param(kind, charp, 0444);
MODULE_PARM_DESC(kind, "cipher-sessions, akcipher-sessions or cipher-data");
static char *driver = "virtio_crypto_aes_cbc";
module_param(driver, charp, 0444);
MODULE_PARM_DESC(driver, "by its name in /proc/crypto");
static unsigned int workers = 1;
module_param(workers, uint, 0444);
MODULE_PARM_DESC(workers, "threads, each with a transform of its own");
static unsigned int ms = 1000;
module_param(ms, uint, 0444);
MODULE_PARM_DESC(ms, "for so many milliseconds");
static unsigned int len = 4096;
module_param(len, uint, 0444);
MODULE_PARM_DESC(len, "bytes of a message");

static const struct traffic *const kinds[] = {
	&cipher_sessions,
	&akcipher_sessions,
	&cipher_data,
};

struct worker {
	const struct traffic *traffic;
	void *of;
	struct task_struct *thread;
	u64 operations, errors, wrong;
	s64 max_ns;
};

static int work(void *data)
{
	struct worker *w = data;

	while (!kthread_should_stop()) {
		const ktime_t start = ktime_get();
		const int err = w->traffic->work(w->of);
		const s64 took = ktime_to_ns(ktime_sub(ktime_get(), start));

		if (took > w->max_ns)
			w->max_ns = took;
		if (err == -EBADMSG)
			w->wrong++;
		else if (err)
			w->errors++;
		else
			w->operations += w->traffic->operations;
		cond_resched();
	}
	return 0;
}

static void tell(const struct worker *all, s64 took_ms)
{
	struct worker sum = {};
	unsigned int i;

	for (i = 0; i < workers; i++) {
		sum.operations += all[i].operations;
		sum.errors += all[i].errors;
		sum.wrong += all[i].wrong;
		sum.max_ns = max(sum.max_ns, all[i].max_ns);
	}
	pr_info("kiln_traffic: %s %s workers %u ms %lld operations %llu errors %llu wrong %llu max_ns %lld\n",
		all->traffic->kind, driver, workers, took_ms, sum.operations, sum.errors,
		sum.wrong, sum.max_ns);
}

static const struct traffic *find(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(kinds[i]->kind, kind))
			return kinds[i];
	return NULL;
}

/* Opens all workers before the first one starts. */
static int open_all(struct worker *all, const struct traffic *traffic)
{
	unsigned int i;

	for (i = 0; i < workers; i++) {
		void *of = traffic->open(driver, len);

		if (IS_ERR(of))
			return PTR_ERR(of);
		all[i].traffic = traffic;
		all[i].of = of;
		all[i].thread = kthread_create(work, &all[i], "kiln/%u", i);
		if (IS_ERR(all[i].thread)) {
			const int err = PTR_ERR(all[i].thread);

			all[i].thread = NULL;
			return err;
		}
	}
	return 0;
}

static int __init traffic_init(void)
{
	const struct traffic *traffic = find();
	struct worker *all;
	unsigned int i;
	ktime_t start;
	int err;

	if (!traffic || !workers || workers > MOST_WORKERS || !ms || ms > LONGEST_MS)
		return -EINVAL;
	all = kcalloc(workers, sizeof(*all), GFP_KERNEL);
	if (!all)
		return -ENOMEM;
	err = open_all(all, traffic);
	start = ktime_get();
	if (!err) {
		for (i = 0; i < workers; i++)
			wake_up_process(all[i].thread);
		msleep(ms);
	}
	for (i = 0; i < workers; i++)
		if (all[i].thread)
			kthread_stop(all[i].thread);
	if (!err)
		tell(all, ktime_ms_delta(ktime_get(), start));
	for (i = 0; i < workers; i++)
		if (all[i].of)
			traffic->close(all[i].of);
	kfree(all);
	return err;
}

static void __exit traffic_exit(void)
{
}

module_init(traffic_init);
module_exit(traffic_exit);
MODULE_DESCRIPTION("Traffic for a virtio-crypto device");
MODULE_LICENSE("Dual MIT/GPL");
