// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Sharing: two requests use one transform at the same time. The first request is interrupted before
 * each instruction, and the second request runs there from start to end. It runs either in a
 * softirq on the same CPU, or on another CPU while the first CPU waits in a hardirq. Both answers
 * are right only if a request keeps its state neither in the transform, nor in a global variable,
 * nor in per-CPU data that other requests may use in the meantime.
 *
 * If an answer is wrong, the requests are repeated with fewer interrupts, until the interrupt that
 * causes the wrong answer is found.
 */
#include <linux/bottom_half.h>
#include <linux/interrupt.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/fpu/api.h>

#include "kiln/abi/audit.h"
#include "kiln/oracle.h"
#include "kiln/step.h"

#define KILN_SOFTIRQ IRQ_POLL_SOFTIRQ	/* the tree's code does not use this softirq */
/*
 * Single-stepping stops after this many consecutive instructions that have all been interrupted
 * before. This saves time in loops.
 */
#define IDLE 256
#define IDLE_THOROUGH 1024
/*
 * Maximum number of interrupts at one instruction, for a thorough examination. Running the second
 * request on the other CPU takes longer than running it in a softirq. With the other CPU, each
 * instruction is therefore interrupted only once, and only two pairs of lengths are tried.
 */
#define VISITS_THOROUGH 2
#define PAIRS_FOR_PEER 2
/*
 * Maximum number of times to check whether the other CPU has completed its request. The number is
 * limited, because the other CPU may wait for a lock that the interrupted code holds.
 */
#define PATIENCE 4000
#define SETTLES 64
#define DEEPEST 24

void kiln_on_interrupt(void (*handler)(void *cpu));
void kiln_open_softirq(unsigned int nr, void (*handler)(void *cpu));
void kiln_relax(void);		/* defined in services/oracle.c */
u64 kiln_glue_peer(struct kiln_peer *peer);

/* One of the two requests, with its buffers. */
struct kiln_sharer {
	struct kiln_subject s;	/* both requests use the same transform */
	const struct kiln_message *message;
	struct scatterlist sg;
	u8 *data;
	u8 iv[64], digest[128];
	bool decrypt, compares;
	bool busy;
	unsigned int wrong;
};

static struct kiln_sharer kiln_first, kiln_second;
static struct kiln_audit *kiln_audit;
static struct kiln_peer *kiln_peer;
static bool kiln_on_peer;	/* whether the second request runs on the other CPU */
static bool kiln_is_internal;
static unsigned long kiln_idle;	/* IDLE or IDLE_THOROUGH */

/* The step that causes the wrong answer if it is interrupted, and this step's backtrace. */
static unsigned long kiln_blamed_step, kiln_blamed[DEEPEST];
static unsigned int kiln_blamed_depth;

static bool kiln_is_right(const struct kiln_sharer *r, int answer)
{
	const struct kiln_message *m = r->message;
	const unsigned int open = m->aad + m->len;
	unsigned int i;

	if (answer != (r->decrypt ? m->open_error : 0))
		return false;
	if (answer || (!r->decrypt && !r->compares))
		return true;
	if (r->s.type == KILN_TYPE_HASH)
		return !memcmp(r->digest, m->sealed, r->s.digest);
	if (!r->decrypt)
		return !memcmp(r->data + m->aad, m->sealed + m->aad,
			       kiln_message_sealed(&r->s, m) - m->aad);
	for (i = m->aad; i < open; i++)
		if (m->written[i] && r->data[i] != m->opened[i])
			return false;
	return true;
}

static void kiln_ended(struct kiln_sharer *r, int answer)
{
	r->s.answer = answer;
	r->wrong += !kiln_is_right(r, answer);
	WRITE_ONCE(r->busy, false);
}

static void kiln_sharer_answered(struct kiln_subject *s, int answer)
{
	if (answer != -EINPROGRESS)
		kiln_ended(container_of(s, struct kiln_sharer, s), answer);
}

/* Fills the buffers of the request with the same contents each time, and returns its arguments. */
static struct kiln_call kiln_call_of(struct kiln_sharer *r)
{
	const struct kiln_message *m = r->message;
	const unsigned int open = m->aad + m->len, sealed = open + r->s.tag;

	memcpy(r->data, r->decrypt ? m->sealed : m->text, r->decrypt ? sealed : open);
	memcpy(r->iv, m->iv, sizeof(r->iv));
	sg_init_one(&r->sg, r->data, r->s.type == KILN_TYPE_HASH ? m->len : sealed);
	return (struct kiln_call){
		.src = &r->sg, .dst = &r->sg, .aad = m->aad, .iv = r->iv, .result = r->digest,
		.len = m->len + (r->decrypt ? r->s.tag : 0), .decrypt = r->decrypt,
	};
}

static void kiln_start(struct kiln_sharer *r)
{
	const struct kiln_call call = kiln_call_of(r);
	int result;

	WRITE_ONCE(r->busy, true);
	result = kiln_submit(&r->s, &call);
	if (result != -EINPROGRESS && result != -EBUSY)
		kiln_ended(r, result);
}

static void kiln_wait_for(struct kiln_sharer *r)
{
	unsigned int i;

	for (i = 0; i < SETTLES && READ_ONCE(r->busy); i++)
		kiln_settle();
}

/* Makes the second request each time the first CPU asks for it. Runs in a task on the other CPU. */
u64 kiln_glue_peer(struct kiln_peer *peer)
{
	while (!READ_ONCE(peer->ends)) {
		const unsigned int asked = smp_load_acquire(&peer->asked);

		if (asked == peer->done) {
			kiln_relax();
			continue;
		}
		kiln_start(&kiln_second);
		kiln_wait_for(&kiln_second);
		smp_store_release(&peer->done, asked);
	}
	return 0;
}

static bool kiln_peer_idle(unsigned int patience)
{
	for (; smp_load_acquire(&kiln_peer->done) != kiln_peer->asked; patience--) {
		if (!patience)
			return false;
		kiln_relax();
	}
	return true;
}

static void kiln_second_in_softirq(void *cpu)
{
	if (READ_ONCE(kiln_second.busy) || (kiln_is_internal && !irq_fpu_usable()))
		return;
	kiln_start(&kiln_second);
}

static void kiln_interrupt(void *cpu)
{
	if (kiln_audit->steps - 1 == kiln_blamed_step) {
		kiln_blamed[0] = kiln_audit->at;
		kiln_blamed_depth = 1 + kiln_trace(__builtin_frame_address(0), kiln_blamed + 1,
						   DEEPEST - 1);
	}
	if (!kiln_on_peer) {
		raise_softirq_irqoff(KILN_SOFTIRQ);
		return;
	}
	/*
	 * Do not ask the other CPU for another request while its previous request waits for a lock.
	 */
	if (kiln_peer_idle(1)) {
		smp_store_release(&kiln_peer->asked, kiln_peer->asked + 1);
		kiln_peer_idle(PATIENCE);
	}
}

/* Makes the first request, and interrupts its steps up to @last_step. */
static void kiln_run(unsigned long last_step)
{
	const struct kiln_call call = kiln_call_of(&kiln_first);
	int result;

	kiln_audit->job++;
	kiln_audit->call = kiln_audit->steps = 0;
	kiln_audit->last_call = 0;
	kiln_audit->last_step = last_step;
	kiln_audit->idle = kiln_audit->outside_idle = kiln_idle;
	kiln_on_interrupt(kiln_interrupt);
	kiln_first.busy = true;
	kiln_set_trap_flag(true);
	result = kiln_submit(&kiln_first.s, &call);
	kiln_set_trap_flag(false);
	kiln_on_interrupt(NULL);
	if (result != -EINPROGRESS && result != -EBUSY)
		kiln_ended(&kiln_first, result);
	kiln_wait_for(&kiln_first);
	/*
	 * From here on, the second request is not started again. Wait until its last run completes.
	 */
	while (kiln_on_peer && !kiln_peer_idle(PATIENCE))
		;
	kiln_wait_for(&kiln_second);
}

static bool kiln_goes_wrong(struct kiln_sharer *r, unsigned long last_step)
{
	r->wrong = 0;
	kiln_run(last_step);
	return r->wrong;
}

/* Finds the interrupt that causes the wrong answer, by bisection, and reports the violation. */
static void kiln_blame(struct kiln_sharer *r, unsigned long steps, const char *what)
{
	unsigned long right = 0, wrong = steps;

	while (right + 1 < wrong) {
		const unsigned long middle = (right + wrong) / 2;

		if (kiln_goes_wrong(r, middle))
			wrong = middle;
		else
			right = middle;
	}
	kiln_blamed_step = wrong;
	kiln_blamed_depth = 0;
	kiln_run(wrong);
	kiln_blamed_step = ULONG_MAX;
	kiln_violated_at("shared-state", what, kiln_blamed, kiln_blamed_depth);
}

static void kiln_share(struct kiln_examine *order, bool decrypt, bool on_peer)
{
	const char *wrong[] = {
		on_peer ? "a request gets a wrong answer if another of its transform runs on another CPU meanwhile" :
			  "a request gets a wrong answer if another of its transform interrupts it",
		on_peer ? "a request gets a wrong answer while another of its transform is under way on another CPU" :
			  "a request gets a wrong answer if it interrupts another of its transform",
	};
	unsigned long steps;

	order->cases++;
	kiln_case.op = kiln_first.s.type == KILN_TYPE_HASH ? "digest" :
		       decrypt ? "decrypt" : "encrypt";
	kiln_case.layout = on_peer ? "beside another CPU" : "under a softirq";
	kiln_case.len = kiln_first.message->len;
	kiln_case.aad = kiln_first.message->aad;
	kiln_first.decrypt = kiln_second.decrypt = decrypt;
	kiln_first.wrong = kiln_second.wrong = 0;
	kiln_on_peer = on_peer;
	kiln_audit->visits = order->thorough && !on_peer ? VISITS_THOROUGH : 1;
	kiln_audit->outside_visits = 1;
	kiln_idle = order->thorough ? IDLE_THOROUGH : IDLE;
	kiln_run(ULONG_MAX);
	steps = kiln_audit->steps;
	if (kiln_first.busy || kiln_second.busy)
		kiln_violates("never-answered", "a request is never answered");
	else if (kiln_first.wrong)
		kiln_blame(&kiln_first, steps, wrong[0]);
	else if (kiln_second.wrong)
		kiln_blame(&kiln_second, steps, wrong[1]);
	kiln_audit->visits = kiln_audit->outside_visits = 0;
}

static int kiln_prepare(struct kiln_sharer *r, const struct kiln_subject *s,
			const struct kiln_message *m, bool compares)
{
	memset(r, 0, sizeof(*r));
	r->s = *s;
	r->s.request = NULL;
	r->s.flags = 0;
	r->s.answered = kiln_sharer_answered;
	init_completion(&r->s.done);
	r->message = m;
	r->compares = compares;
	r->data = kmalloc(m->aad + m->len + s->tag, GFP_KERNEL);
	return r->data ? kiln_subject_request(&r->s) : -ENOMEM;
}

static void kiln_release(struct kiln_sharer *r)
{
	/* Do not free a request that has never completed, because the driver may still use it. */
	if (r->busy)
		return;
	kfree(r->s.request);
	kfree(r->data);
}

/*
 * Returns whether encrypting a message twice gives the same answer. Some drivers randomise their
 * answers.
 */
static bool kiln_repeats(struct kiln_subject *s, struct kiln_message *m, unsigned int len, u64 draw)
{
	u64 answers[2], again;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		again = draw;
		kiln_message_seal(s, m, len, s->aad, &again);
		answers[i] = kiln_hash(1, m->sealed, kiln_message_sealed(s, m));
	}
	return answers[0] == answers[1];
}

static void kiln_share_all(struct kiln_examine *order, struct kiln_subject *s, unsigned int first,
			   unsigned int second, bool beside_peer, u64 *draw)
{
	static struct kiln_message a, b;
	unsigned int ways = s->type == KILN_TYPE_HASH ? 1 : 2, decrypt;
	bool compares;

	kiln_case.op = "encrypt";
	kiln_case.layout = "ordinary";
	kiln_case.len = first;
	order->error = kiln_message_alloc(&a) ?: kiln_message_alloc(&b);
	if (order->error)
		return;
	compares = kiln_repeats(s, &a, first, *draw);
	kiln_message_seal(s, &a, first, s->aad, draw);
	kiln_message_seal(s, &b, second, s->aad, draw);
	order->cases++;
	if (a.error || b.error) {
		order->refused++;
		goto out;
	}
	if (s->type != KILN_TYPE_HASH) {
		kiln_message_open(s, &a);
		kiln_message_open(s, &b);
	}
	order->error = kiln_prepare(&kiln_first, s, &a, compares) ?:
		       kiln_prepare(&kiln_second, s, &b, compares);
	for (decrypt = 0; decrypt < ways && !order->error; decrypt++) {
		kiln_share(order, decrypt, false);
		if (kiln_peer && beside_peer)
			kiln_share(order, decrypt, true);
	}
	kiln_release(&kiln_first);
	kiln_release(&kiln_second);
out:
	kiln_message_free(&a);
	kiln_message_free(&b);
}

void kiln_examine_sharing(struct kiln_examine *order)
{
	static const u16 lengths[][2] = { { 48, 64 }, { 304, 48 }, { 65, 33 }, { 1040, 528 } };
	struct kiln_subject s;
	u64 draw = kiln_seed_of(order);
	unsigned int i;

	kiln_audit = order->audit;
	kiln_peer = order->peer;
	kiln_is_internal = order->internal;
	kiln_blamed_step = ULONG_MAX;
	order->error = kiln_audit ? kiln_subject_open(&s, order) : -EINVAL;
	if (order->error)
		return;
	kiln_open_softirq(KILN_SOFTIRQ, kiln_second_in_softirq);
	for (i = 0; i < (order->thorough ? ARRAY_SIZE(lengths) : 1) && !order->error; i++)
		kiln_share_all(order, &s, lengths[i][0], lengths[i][1], i < PAIRS_FOR_PEER, &draw);
	kiln_subject_close(&s);
}
