// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Runs a script of requests on the real crypto API and records the results (kernel/load/script.c
 * runs the same script on the emulated CPU). The question is `requests TRANSFORMS STEP...`, where a
 * step is one of
 *	S<transform>:<context>:<flags>:<count>	submit
 *	R<count>				let other tasks run until <count> more are answered
 *	[ ]					open, close an FPU section
 *	( )					disable, enable softirqs
 *	F<transform>				free the transform
 * Each line of the answer describes a series of consecutive requests with the same event:
 *	first-last returned|answered error count [k] [w]
 * k means that the event occurred in a kernel thread, w that the result has wrong bytes.
 */
#include <linux/bottom_half.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/sched.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/version.h>
#include <linux/vmalloc.h>

#include <asm/fpu/api.h>
#include <crypto/skcipher.h>

#include "fidelity.h"

enum {
	LEN = 48, KEY = 64, IV = 16,
	TFMS = 4, STEPS = 64, MESSAGES = 2048, EVENTS = 3 * MESSAGES,
	PATIENCE_MS = 10000
};

struct event {
	u32 request;
	bool told, kthread, wrong;
	int err;
	u32 count;
};

struct run;

struct message {
	struct run *run;
	struct skcipher_request *request;
	u32 number;
	struct scatterlist sg;
	u8 iv[IV];
	u8 data[LEN];
};

struct run {
	struct crypto_skcipher *tfm[TFMS];
	u32 tfms, submitted, answered, events;
	u32 later;		/* requests in `answered` that were completed by a callback */
	u32 awaited;		/* completions for which the steps so far have waited */
	u32 sections, bh_off;
	struct message **message;	/* all messages of the script */
	u32 messages;
	struct event *event;
	u8 want[LEN];
};

static void note(struct message *m, bool told, int err)
{
	struct run *run = m->run;
	struct event *e;
	unsigned long flags;
	const u32 count = usual_preempt_count();

	local_irq_save(flags);
	if (run->events < EVENTS) {
		e = &run->event[run->events++];
		e->request = m->number;
		e->told = told;
		e->kthread = current->flags & PF_KTHREAD;
		e->wrong = !err && memcmp(m->data, run->want, LEN);
		e->err = err;
		e->count = count;
	}
	if (err != -EINPROGRESS && err != -EBUSY) {
		run->answered++;
		run->later += told;
	}
	local_irq_restore(flags);
}

static void done(struct message *m, int err)
{
	note(m, true, err);
}

/* Since 6.3 the callback's argument has a different type. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
static void completed(void *data, int err)
{
	done(data, err);
}
#else
static void completed(struct crypto_async_request *request, int err)
{
	done(request->data, err);
}
#endif

/*
 * Allocates the requests. This happens before the script begins, because an allocation may let
 * other tasks run.
 */
static bool allocate(struct run *run, u32 tfm, u32 flags, u32 count)
{
	struct message *m;
	int i;

	for (; count; count--) {
		if (run->messages == MESSAGES)
			return false;
		m = kzalloc(sizeof(*m), GFP_KERNEL);
		if (!m)
			return false;
		m->request = skcipher_request_alloc(run->tfm[tfm], GFP_KERNEL);
		if (!m->request) {
			kfree(m);
			return false;
		}
		m->run = run;
		m->number = run->messages;
		run->message[run->messages++] = m;
		for (i = 0; i < LEN; i++)
			m->data[i] = i;
		memset(m->iv, 9, IV);
		sg_init_one(&m->sg, m->data, LEN);
		skcipher_request_set_callback(m->request, flags, completed, m);
		skcipher_request_set_crypt(m->request, &m->sg, &m->sg, LEN, m->iv);
	}
	return true;
}

static void submit_there(void *data)
{
	struct message *m = data;

	note(m, false, crypto_skcipher_encrypt(m->request));
}

static bool submit(struct run *run, u32 where, u32 count)
{
	for (; count; count--) {
		if (!where_run(where, submit_there, run->message[run->submitted]))
			return false;
		run->submitted++;
	}
	return true;
}

static bool let_run(const u32 *answers, u32 until)
{
	int ms;

	for (ms = 0; READ_ONCE(*answers) < until; ms++) {
		if (ms == PATIENCE_MS)
			return false;
		msleep(1);
	}
	return true;
}

static bool is_submission(const struct run *run, const char *step, u32 *tfm, u32 *where,
			  u32 *flags, u32 *count)
{
	return sscanf(step, "S%u:%u:%u:%u", tfm, where, flags, count) == 4 &&
	       *tfm < run->tfms && *where < WHERE_NR;
}

static bool take(struct run *run, const char *step)
{
	u32 tfm, where, flags, count;

	switch (*step) {
	case 'S':
		return is_submission(run, step, &tfm, &where, &flags, &count) &&
		       run->tfm[tfm] && submit(run, where, count);
	case 'R':
		if (sscanf(step, "R%u", &count) != 1)
			return false;
		/*
		 * Add to the total of the previous steps. Some of the requests may already have
		 * completed, because a tick may have let other tasks run.
		 */
		run->awaited += count;
		return let_run(&run->later, run->awaited);
	case 'F':
		if (sscanf(step, "F%u", &tfm) != 1 || tfm >= run->tfms)
			return false;
		crypto_free_skcipher(run->tfm[tfm]);
		run->tfm[tfm] = NULL;
		return true;
	case '[':
		run->sections++;
		kernel_fpu_begin();
		return true;
	case ']':
		if (!run->sections)
			return false;
		run->sections--;
		kernel_fpu_end();
		return true;
	case '(':
		run->bh_off++;
		local_bh_disable();
		return true;
	case ')':
		if (!run->bh_off)
			return false;
		run->bh_off--;
		local_bh_enable();
		return true;
	default:
		return false;
	}
}

/* Computes the expected result with the same driver, in a context that may sleep. */
static int prepare(struct run *run)
{
	u8 key[KEY], iv[IV];
	u32 i;

	memset(key, 0x5e, KEY);
	key[0] = 1;
	for (i = 0; i < run->tfms; i++) {
		struct crypto_skcipher *tfm = crypto_alloc_skcipher("xts(aes)", 0, 0);
		int err;

		if (IS_ERR(tfm))
			return PTR_ERR(tfm);
		run->tfm[i] = tfm;
		err = crypto_skcipher_setkey(tfm, key, KEY);
		if (err)
			return err;
	}
	memset(iv, 9, IV);
	for (i = 0; i < LEN; i++)
		run->want[i] = i;
	if (run->tfms) {
		DECLARE_CRYPTO_WAIT(wait);
		struct skcipher_request *request =
			skcipher_request_alloc(run->tfm[0], GFP_KERNEL);
		u8 *data = kmemdup(run->want, LEN, GFP_KERNEL);
		struct scatterlist sg;
		int err = -ENOMEM;

		if (request && data) {
			sg_init_one(&sg, data, LEN);
			skcipher_request_set_callback(request, CRYPTO_TFM_REQ_MAY_SLEEP,
						      crypto_req_done, &wait);
			skcipher_request_set_crypt(request, &sg, &sg, LEN, iv);
			err = crypto_wait_req(crypto_skcipher_encrypt(request), &wait);
			memcpy(run->want, data, LEN);
		}
		kfree(data);
		skcipher_request_free(request);
		return err;
	}
	return 0;
}

static bool follows(const struct event *e, const struct event *before)
{
	return e->request == before->request + 1 && e->told == before->told &&
	       e->kthread == before->kthread && e->wrong == before->wrong &&
	       e->err == before->err && e->count == before->count;
}

static void tell(const struct run *run, struct answer *to)
{
	u32 i, first;

	for (i = 0; i < run->events; i++) {
		const struct event *e = &run->event[i];

		for (first = e->request; i + 1 < run->events &&
		     follows(&run->event[i + 1], &run->event[i]); i++)
			;
		answer(to, "%u-%u %s %d %x%s%s\n", first, run->event[i].request,
		       e->told ? "answered" : "returned", e->err, e->count,
		       e->kthread ? " k" : "", e->wrong ? " w" : "");
	}
}

static void clean_up(struct run *run)
{
	u32 i;

	for (i = 0; i < run->messages; i++) {
		skcipher_request_free(run->message[i]->request);
		kfree(run->message[i]);
	}
	for (i = 0; i < run->tfms; i++)
		if (!IS_ERR_OR_NULL(run->tfm[i]))
			crypto_free_skcipher(run->tfm[i]);
	vfree(run->message);
	vfree(run->event);
	kfree(run);
}

int requests_ask(char *question, struct answer *to)
{
	struct run *run = kzalloc(sizeof(*run), GFP_KERNEL);
	char *word = strsep(&question, " \n"), *step[STEPS];
	u32 steps = 0, i, tfm, where, flags, count;
	int err = -ENOMEM;

	if (!run)
		return err;
	run->event = vzalloc(array_size(EVENTS, sizeof(*run->event)));
	run->message = vzalloc(array_size(MESSAGES, sizeof(*run->message)));
	if (!run->event || !run->message)
		goto out;
	err = -EINVAL;
	if (kstrtouint(word, 10, &run->tfms) || !run->tfms || run->tfms > TFMS) {
		run->tfms = 0;
		goto out;
	}
	err = prepare(run);
	if (err)
		goto out;
	while ((word = strsep(&question, " \n")) && *word) {
		err = steps == STEPS ? -E2BIG : 0;
		step[steps++] = word;
		if (!err && *word == 'S' &&
		    (!is_submission(run, word, &tfm, &where, &flags, &count) ||
		     !allocate(run, tfm, flags, count)))
			err = -EINVAL;
		if (err)
			goto out;
	}
	answer(to, "driver %s\n", crypto_skcipher_driver_name(run->tfm[0]));
	answer(to, "right %*phN\n", LEN, run->want);
	for (i = 0; i < steps && take(run, step[i]); i++)
		;
	/*
	 * End the sections that the script has left open, for example because a step never ended.
	 */
	while (run->sections)
		take(run, "]");
	while (run->bh_off)
		take(run, ")");
	/*
	 * If an accepted request has not completed, leak the memory, because it may still be used.
	 */
	if (!let_run(&run->answered, run->submitted)) {
		answer(to, "stuck %u\n", steps);
		return 0;
	}
	if (i < steps)
		answer(to, "stuck %u\n", i);
	tell(run, to);
	err = 0;
out:
	clean_up(run);
	return err;
}
