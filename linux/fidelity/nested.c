// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Tests nested sections. The question is `nested MILLISECONDS THREADS TIMER TASKLET`, where each of
 * the last three words is a driver's name. Threads encrypt with the first driver, as fast as they
 * can. A timer in softirq context and a tasklet that a hardirq raises encrypt with the other two
 * drivers at random times. Everything runs on this CPU. Every result is compared with a result
 * computed before the test, without interruptions.
 *
 * The answer has a line for each thread, timer and tasklet:
 *
 *	WHO DRIVER done N wrong N refused N late N over N
 * `refused` counts requests that returned an error. `late` counts requests that did not complete
 * synchronously. `over` counts requests that began where irq_fpu_usable() returned false.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/version.h>

#include <asm/fpu/api.h>
#include <crypto/skcipher.h>

#include "fidelity.h"

enum { THREADS = 2, LONGEST = 4096, KEY = 64, IV = 32, LIMIT_MS = 120000 };

/* Minimum time between two interrupts. A random time of up to the same length is added to it. */
enum { TIMER_NS = 60000, TASKLET_NS = 80000 };

/* A thread, timer or tasklet that uses one driver and has at most one request in flight. */
struct side {
	const char *who;
	char *driver;
	unsigned int len;
	struct crypto_skcipher *tfm;
	struct skcipher_request *request;
	struct crypto_wait wait;
	struct scatterlist sg;
	u8 *data, *want;
	u8 iv[IV];
	u64 done, wrong, refused, late, over;
};

static struct side sides[THREADS + 2];
static struct hrtimer soft_timer, hard_timer;
static bool stop;

static void fill(struct side *s)
{
	unsigned int i;

	for (i = 0; i < s->len; i++)
		s->data[i] = i * 7 + (i >> 8) + s->len;
	memset(s->iv, 3, IV);
}

/* Encrypts. If the request is deferred, a task waits for it. Other contexts cannot wait. */
static int encrypt(struct side *s, bool task)
{
	int err;

	fill(s);
	err = crypto_skcipher_encrypt(s->request);
	if (err != -EINPROGRESS)
		return err;
	s->late++;
	return task ? crypto_wait_req(err, &s->wait) : err;
}

static void work(struct side *s, bool task)
{
	const bool usable = irq_fpu_usable();
	const int err = encrypt(s, task);

	s->done++;
	s->over += !usable;
	if (err)
		s->refused++;
	else if (memcmp(s->data, s->want, s->len))
		s->wrong++;
}

static int thread(void *data)
{
	while (!kthread_should_stop()) {
		work(data, true);
		cond_resched();
	}
	return 0;
}

static void tasklet_work(struct tasklet_struct *tasklet)
{
	if (!READ_ONCE(stop))
		work(&sides[THREADS + 1], false);
}

static DECLARE_TASKLET(tasklet, tasklet_work);

static enum hrtimer_restart restart_timer(struct hrtimer *timer, u32 ns)
{
	u32 more;

	if (READ_ONCE(stop))
		return HRTIMER_NORESTART;
	get_random_bytes(&more, sizeof(more));
	hrtimer_forward_now(timer, ns_to_ktime(ns + more % ns));
	return HRTIMER_RESTART;
}

static enum hrtimer_restart in_softirq_time(struct hrtimer *timer)
{
	work(&sides[THREADS], false);
	return restart_timer(timer, TIMER_NS);
}

static enum hrtimer_restart in_hardirq_time(struct hrtimer *timer)
{
	tasklet_schedule(&tasklet);
	return restart_timer(timer, TASKLET_NS);
}

static void timer_start(struct hrtimer *timer, enum hrtimer_restart (*fn)(struct hrtimer *),
			enum hrtimer_mode mode)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
	hrtimer_setup(timer, fn, CLOCK_MONOTONIC, mode);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, mode);
	timer->function = fn;
#endif
	hrtimer_start(timer, ns_to_ktime(TIMER_NS), mode);
}

static int set_up(struct side *s)
{
	u8 key[KEY];
	int i, err;

	s->tfm = crypto_alloc_skcipher(s->driver, 0, 0);
	if (IS_ERR(s->tfm))
		return PTR_ERR(s->tfm);
	for (i = 0; i < KEY; i++)
		key[i] = i + 1;
	/* XTS takes a key of twice the length, so try the whole key first and then half of it. */
	err = crypto_skcipher_setkey(s->tfm, key, KEY);
	if (err)
		err = crypto_skcipher_setkey(s->tfm, key, KEY / 2);
	if (err)
		return err;
	s->request = skcipher_request_alloc(s->tfm, GFP_KERNEL);
	s->data = kmalloc(LONGEST, GFP_KERNEL);
	s->want = kmalloc(LONGEST, GFP_KERNEL);
	if (!s->request || !s->data || !s->want)
		return -ENOMEM;
	crypto_init_wait(&s->wait);
	sg_init_one(&s->sg, s->data, s->len);
	skcipher_request_set_callback(s->request, 0, crypto_req_done, &s->wait);
	skcipher_request_set_crypt(s->request, &s->sg, &s->sg, s->len, s->iv);
	err = encrypt(s, true);
	memcpy(s->want, s->data, s->len);
	return err;
}

static void tear_down(struct side *s)
{
	skcipher_request_free(s->request);
	kfree(s->data);
	kfree(s->want);
	if (!IS_ERR_OR_NULL(s->tfm))
		crypto_free_skcipher(s->tfm);
}

static void tell(const struct side *s, struct answer *to)
{
	answer(to, "%s %s done %llu wrong %llu refused %llu late %llu over %llu\n", s->who,
	       s->driver, s->done, s->wrong, s->refused, s->late, s->over);
}

int nested_ask(char *question, struct answer *to)
{
	struct task_struct *threads[THREADS];
	char *word = strsep(&question, " \n"), *drivers[3];
	unsigned int ms, i, started = 0;
	int err = 0;

	if (kstrtouint(word, 10, &ms) || ms > LIMIT_MS)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(drivers); i++)
		if (!(drivers[i] = strsep(&question, " \n")) || !*drivers[i])
			return -EINVAL;
	memset(sides, 0, sizeof(sides));
	stop = false;
	for (i = 0; i < ARRAY_SIZE(sides) && !err; i++) {
		struct side *s = &sides[i];

		s->who = i < THREADS ? "thread" : i == THREADS ? "timer" : "tasklet";
		s->driver = drivers[i < THREADS ? 0 : i - THREADS + 1];
		s->len = i < THREADS ? LONGEST - 16 * i : 512;
		err = set_up(s);
	}
	if (err)
		goto out;
	for (; started < THREADS; started++) {
		threads[started] = kthread_create(thread, &sides[started], "kiln/%u", started);
		if (IS_ERR(threads[started])) {
			err = PTR_ERR(threads[started]);
			goto stop_threads;
		}
		kthread_bind(threads[started], raw_smp_processor_id());
		wake_up_process(threads[started]);
	}
	timer_start(&soft_timer, in_softirq_time, HRTIMER_MODE_REL_PINNED_SOFT);
	timer_start(&hard_timer, in_hardirq_time, HRTIMER_MODE_REL_PINNED_HARD);
	msleep(ms);
	WRITE_ONCE(stop, true);
	hrtimer_cancel(&soft_timer);
	hrtimer_cancel(&hard_timer);
	tasklet_kill(&tasklet);
stop_threads:
	while (started)
		kthread_stop(threads[--started]);
	if (!err)
		for (i = 0; i < ARRAY_SIZE(sides); i++)
			tell(&sides[i], to);
out:
	for (i = 0; i < ARRAY_SIZE(sides); i++)
		tear_down(&sides[i]);
	return err;
}
