// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Context: callers in atomic context must not be put to sleep. Requests are made in a task, with
 * softirqs disabled, with preemption disabled, in a softirq, and, where the tree allows it, in a
 * softirq that interrupted an open FPU section. The callbacks of asynchronous children are another
 * atomic context. Synchronous hashes are also called in hardirqs that interrupted a task, a task
 * with softirqs disabled, a softirq, or an open FPU section.
 *
 * In each context, three things are violations: anything that may sleep (services/sleep.c), passing
 * a request on with the flag that allows sleeping, and beginning an FPU section where
 * irq_fpu_usable() is false.
 */
#include <linux/bottom_half.h>
#include <linux/interrupt.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/preempt.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <asm/fpu/api.h>
#include <crypto/aead.h>
#include <crypto/algapi.h>
#include <crypto/hash.h>
#include <crypto/skcipher.h>

#include "kiln/abi/audit.h"
#include "kiln/oracle.h"
#include "kiln/step.h"

#define KILN_SOFTIRQ IRQ_POLL_SOFTIRQ	/* the tree's code does not use this softirq */

unsigned int kiln_glue_atomic(void);
extern void (*kiln_before_section)(void);	/* defined in fpu.c */
void kiln_on_interrupt(void (*handler)(void *cpu));
void kiln_open_softirq(unsigned int nr, void (*handler)(void *cpu));

unsigned int kiln_glue_atomic(void)
{
	unsigned int why = 0;

	/* Test the masks, because older trees lack the newer helpers. */
	if (preempt_count() & HARDIRQ_MASK)
		why |= KILN_ATOMIC_HARDIRQ;
	if (preempt_count() & SOFTIRQ_OFFSET)
		why |= KILN_ATOMIC_SOFTIRQ;
	else if (preempt_count() & SOFTIRQ_MASK)
		why |= KILN_ATOMIC_BH_OFF;
	if (preempt_count() & PREEMPT_MASK)
		why |= KILN_ATOMIC_PREEMPT_OFF;
	if (irqs_disabled())
		why |= KILN_ATOMIC_IRQS_OFF;
	return why;
}

static const char *kiln_atomic_name(unsigned int why)
{
	if (why & KILN_ATOMIC_HARDIRQ)
		return "in a hardirq";
	if (why & KILN_ATOMIC_SOFTIRQ)
		return "in a softirq";
	if (why & KILN_ATOMIC_BH_OFF)
		return "with softirqs off, as in the callback of a request";
	return "with preemption or interrupts off";
}

static void kiln_check_section(void)
{
	if (!irq_fpu_usable())
		kiln_violated("fpu-section", "begins an FPU section where irq_fpu_usable() is false",
			      __builtin_frame_address(0));
}

/* Must match struct request_note in services/service.h. */
struct kiln_request_note {
	const char *function;
	char driver[CRYPTO_MAX_ALG_NAME];
	unsigned long len, aad;
	unsigned long src, dst;
};

void kiln_note_request(struct kiln_request_note *note);
void kiln_note_queued(const void *request);
void kiln_note_dequeued(const void *request);
u64 kiln_glue_note_requests(void *wanted);

int __real_crypto_enqueue_request(struct crypto_queue *queue, struct crypto_async_request *request);
int __wrap_crypto_enqueue_request(struct crypto_queue *queue, struct crypto_async_request *request);
struct crypto_async_request *__real_crypto_dequeue_request(struct crypto_queue *queue);
struct crypto_async_request *__wrap_crypto_dequeue_request(struct crypto_queue *queue);

static bool kiln_checks;

static struct kiln_request_note kiln_note(const char *function, struct crypto_tfm *tfm,
					  const struct scatterlist *src,
					  const struct scatterlist *dst, unsigned long len,
					  unsigned long aad)
{
	struct kiln_request_note note = { .function = function, .len = len, .aad = aad,
					  .src = src ? (unsigned long)src->offset : -1ul,
					  .dst = dst ? (unsigned long)dst->offset : -1ul };

	strscpy(note.driver, crypto_tfm_alg_driver_name(tfm), sizeof(note.driver));
	return note;
}

static struct kiln_request_note kiln_note_skcipher_request(const char *function,
							   struct skcipher_request *r)
{
	return kiln_note(function, crypto_skcipher_tfm(crypto_skcipher_reqtfm(r)), r->src, r->dst,
			 r->cryptlen, 0);
}

static struct kiln_request_note kiln_note_aead_request(const char *function, struct aead_request *r)
{
	return kiln_note(function, crypto_aead_tfm(crypto_aead_reqtfm(r)), r->src, r->dst,
			 r->cryptlen, r->assoclen);
}

static struct kiln_request_note kiln_note_ahash_request(const char *function,
							struct ahash_request *r)
{
	const struct scatterlist *src = r->src;

	/*
	 * final() has no source, but the request still contains the source pointer of the previous
	 * call.
	 */
	if (!strcmp(function, "crypto_ahash_final"))
		src = NULL;
#ifdef CRYPTO_AHASH_REQ_VIRT
	/* If this flag is set, the source is an address instead of a scatterlist. */
	if (r->base.flags & CRYPTO_AHASH_REQ_VIRT)
		src = NULL;
#endif
	return kiln_note(function, crypto_ahash_tfm(crypto_ahash_reqtfm(r)), src, NULL,
			 src ? r->nbytes : 0, 0);
}

/*
 * Defines a jump through which the tree calls a crypto API function. The jump leads to the check
 * only while a driver is being examined or the tree tests itself. At other times, calls are not
 * slowed down.
 */
#define KILN_CHECKED(fn, type)                                                                    \
	int __real_##fn(struct type *request) __attribute__((weak));                              \
	int kiln_checked_##fn(struct type *request);                                              \
	KILN_JUMP(fn)                                                                             \
	int kiln_checked_##fn(struct type *request)                                               \
	{                                                                                         \
		const unsigned int why = kiln_glue_atomic();                                      \
		struct kiln_request_note note = kiln_note_##type(#fn, request);                   \
		char what[160];                                                                   \
		int result;                                                                       \
												  \
		if (kiln_checks && why && request->base.flags & CRYPTO_TFM_REQ_MAY_SLEEP) {                      \
			snprintf(what, sizeof(what),                                              \
				 "calls " #fn "() with CRYPTO_TFM_REQ_MAY_SLEEP %s",              \
				 kiln_atomic_name(why));                                          \
			kiln_violated("may-sleep-flag", what, __builtin_frame_address(0));        \
		}                                                                                 \
		kiln_note_request(&note);                                                         \
		result = __real_##fn(request);                                                    \
		kiln_note_request(&note);                                                         \
		return result;                                                                    \
	}

KILN_CHECKED(crypto_skcipher_encrypt, skcipher_request)
KILN_CHECKED(crypto_skcipher_decrypt, skcipher_request)
KILN_CHECKED(crypto_aead_encrypt, aead_request)
KILN_CHECKED(crypto_aead_decrypt, aead_request)
KILN_CHECKED(crypto_ahash_digest, ahash_request)
KILN_CHECKED(crypto_ahash_update, ahash_request)
KILN_CHECKED(crypto_ahash_final, ahash_request)
KILN_CHECKED(crypto_ahash_finup, ahash_request)

void kiln_turn(u8 *jump, const void *past, const void *check, bool wanted)
{
	const s32 offset = (wanted ? check : past) - (void *)(jump + 5);

	/* @past is NULL if this tree has only an inline version of the function. */
	if (past)
		memcpy(jump + 1, &offset, sizeof(offset));
}

#define KILN_TURN(fn) kiln_turn(__wrap_##fn, __real_##fn, kiln_checked_##fn, wanted)

static void kiln_turn_all(bool wanted)
{
	KILN_TURN(crypto_skcipher_encrypt);
	KILN_TURN(crypto_skcipher_decrypt);
	KILN_TURN(crypto_aead_encrypt);
	KILN_TURN(crypto_aead_decrypt);
	KILN_TURN(crypto_ahash_digest);
	KILN_TURN(crypto_ahash_update);
	KILN_TURN(crypto_ahash_final);
	KILN_TURN(crypto_ahash_finup);
}

static bool kiln_notes;

int __wrap_crypto_enqueue_request(struct crypto_queue *queue, struct crypto_async_request *request)
{
	if (kiln_notes)
		kiln_note_queued(request);
	return __real_crypto_enqueue_request(queue, request);
}

struct crypto_async_request *__wrap_crypto_dequeue_request(struct crypto_queue *queue)
{
	struct crypto_async_request *request = __real_crypto_dequeue_request(queue);

	if (kiln_notes)
		kiln_note_dequeued(request);
	return request;
}

/* Starts to record requests, so that crash reports can describe them. */
u64 kiln_glue_note_requests(void *unused)
{
	(void)unused;
	kiln_notes = true;
	kiln_turn_all(true);
	return 0;
}

static void kiln_watch(bool wanted)
{
	kiln_turn_all(wanted);
	kiln_checks = wanted;
	kiln_before_section = wanted ? kiln_check_section : NULL;
	kiln_watch_sleep(wanted);
}

/* The request that the functions below make in a given context, and its result. */
static struct kiln_subject *kiln_asking;
static const struct kiln_call *kiln_asked;
static int kiln_result;
static void (*kiln_softirq_does)(void);
static struct kiln_audit *kiln_audit;
static bool kiln_awaits_interrupt;

static void kiln_in_task(void)
{
	kiln_result = kiln_submit(kiln_asking, kiln_asked);
}

static void kiln_in_bh_off(void)
{
	local_bh_disable();
	kiln_in_task();
	local_bh_enable();
}

static void kiln_in_preempt_off(void)
{
	preempt_disable();
	kiln_in_task();
	preempt_enable();
}

static void kiln_softirq(void *cpu)
{
	kiln_softirq_does();
}

static void kiln_raise(void (*does)(void))
{
	kiln_softirq_does = does;
	local_bh_disable();
	raise_softirq(KILN_SOFTIRQ);
	local_bh_enable();
}

static void kiln_in_softirq(void)
{
	kiln_raise(kiln_in_task);
}

static void kiln_in_softirq_over_section(void)
{
	kernel_fpu_begin();
	/* Since 6.15 an FPU section disables softirqs. */
	if (!(preempt_count() & SOFTIRQ_MASK)) {
		kiln_softirq_does = kiln_in_task;
		raise_softirq(KILN_SOFTIRQ);
		do_softirq();
		kernel_fpu_end();
		return;
	}
	kernel_fpu_end();
	kiln_in_softirq();
}

static void kiln_interrupt(void *cpu)
{
	if (!kiln_awaits_interrupt)
		return;
	kiln_awaits_interrupt = false;
	kiln_in_task();
}

/* Causes a single hardirq, before the next instruction. */
static void kiln_in_hardirq(void)
{
	kiln_awaits_interrupt = true;
	kiln_on_interrupt(kiln_interrupt);
	kiln_audit->job++;
	kiln_audit->call = kiln_audit->steps = 0;
	kiln_audit->visits = kiln_audit->outside_visits = 1;
	kiln_set_trap_flag(true);
	kiln_set_trap_flag(false);
	kiln_audit->visits = kiln_audit->outside_visits = 0;
	kiln_on_interrupt(NULL);
}

static void kiln_in_hardirq_over_bh_off(void)
{
	local_bh_disable();
	kiln_in_hardirq();
	local_bh_enable();
}

static void kiln_in_hardirq_over_softirq(void)
{
	kiln_raise(kiln_in_hardirq);
}

static void kiln_in_hardirq_over_section(void)
{
	kernel_fpu_begin();
	kiln_in_hardirq();
	kernel_fpu_end();
}

static const struct kiln_asker {
	const char *name;
	void (*ask)(void);
	u32 flags;
	bool hardirq;
} kiln_wheres[] = {
	{ "in a task", kiln_in_task, CRYPTO_TFM_REQ_MAY_SLEEP | CRYPTO_TFM_REQ_MAY_BACKLOG },
	{ "in a task, without a flag", kiln_in_task, 0 },
	{ "with softirqs off", kiln_in_bh_off, 0 },
	{ "with preemption off", kiln_in_preempt_off, 0 },
	{ "in a softirq", kiln_in_softirq, CRYPTO_TFM_REQ_MAY_BACKLOG },
	{ "in a softirq over an FPU section", kiln_in_softirq_over_section, 0 },
	{ "in a hardirq", kiln_in_hardirq, 0, true },
	{ "in a hardirq over softirqs off", kiln_in_hardirq_over_bh_off, 0, true },
	{ "in a hardirq over a softirq", kiln_in_hardirq_over_softirq, 0, true },
	{ "in a hardirq over an FPU section", kiln_in_hardirq_over_section, 0, true },
};

/* Splits the data into pieces that cross page boundaries and do not end at block boundaries. */
static void kiln_cut(struct scatterlist *sg, u8 *at, unsigned int len)
{
	const unsigned int first = min(len, 33u), second = min(len - first, 4096u);

	sg_init_table(sg, 3);
	sg_set_buf(&sg[0], at, first);
	sg_set_buf(&sg[1], at + first, second);
	sg_set_buf(&sg[2], at + first + second, len - first - second);
	if (len - first - second == 0)
		sg_mark_end(&sg[second ? 1 : 0]);
}

static void kiln_ask_there(struct kiln_subject *s, struct kiln_message *m,
			   const struct kiln_asker *where, bool decrypt)
{
	const unsigned int sealed = kiln_message_sealed(s, m);
	const bool hash = s->type == KILN_TYPE_HASH;
	const unsigned int open = m->aad + m->len;
	struct scatterlist src[3];
	u8 iv[64], digest[128];
	struct kiln_call call = { .src = src, .dst = src, .aad = m->aad, .iv = iv,
				  .result = digest, .decrypt = decrypt };
	const u8 *expected = decrypt ? m->opened : m->sealed;
	const int right = decrypt ? m->open_error : 0;
	unsigned int i;
	int error;

	call.len = hash ? m->len : (decrypt ? sealed : open) - m->aad;
	memcpy(m->room, decrypt ? m->sealed : m->text, decrypt ? sealed : open);
	memcpy(iv, m->iv, sizeof(iv));
	kiln_cut(src, m->room, hash ? m->len : sealed);
	kiln_case.op = hash ? "digest" : decrypt ? "decrypt" : "encrypt";
	kiln_case.layout = where->name;
	s->flags = where->flags;
	kiln_asking = s;
	kiln_asked = &call;
	kiln_result = -EINPROGRESS;
	kiln_watch(true);
	where->ask();
	error = kiln_await(s, kiln_result);
	kiln_watch(false);
	for (i = m->aad; decrypt && i < open; i++)
		if (!m->written[i])
			m->room[i] = expected[i];
	if (error != right)
		kiln_violates("answer", "returns %d, but %d in a task, out of place", error, right);
	else if (!error && (hash ? memcmp(digest, expected, s->digest) :
			memcmp(m->room + m->aad, expected + m->aad, (decrypt ? open : sealed) - m->aad)))
		kiln_violates("answer", "the answer is wrong; in a task, out of place, it is right");
}

void kiln_examine_context(struct kiln_examine *order)
{
	static const u16 lengths[] = { 16, 48, 65, 128, 304, 1024, 4352, 5003 };
	struct kiln_subject s;
	struct kiln_message m = {};
	u64 draw = kiln_seed_of(order);
	unsigned int i, j;

	order->error = kiln_subject_open(&s, order);
	if (order->error)
		return;
	order->error = kiln_message_alloc(&m);
	kiln_audit = order->audit;
	kiln_open_softirq(KILN_SOFTIRQ, kiln_softirq);
	for (i = 0; i < ARRAY_SIZE(lengths) && !order->error; i++) {
		kiln_case.len = lengths[i];
		kiln_case.aad = s.aad;
		s.flags = CRYPTO_TFM_REQ_MAY_SLEEP | CRYPTO_TFM_REQ_MAY_BACKLOG;
		kiln_message_seal(&s, &m, lengths[i], s.aad, &draw);
		order->cases++;
		if (m.error) {
			order->refused++;
			continue;
		}
		if (s.type != KILN_TYPE_HASH)
			kiln_message_open(&s, &m);
		for (j = 0; j < ARRAY_SIZE(kiln_wheres); j++) {
			/*
			 * Callers of internal drivers must check irq_fpu_usable() first, so skip
			 * this case.
			 */
			if (order->internal && kiln_wheres[j].ask == kiln_in_softirq_over_section)
				continue;
			/*
			 * Ciphers and asynchronous algorithms may be used only in tasks and
			 * softirqs, so do not call them in hardirqs.
			 */
			if (kiln_wheres[j].hardirq &&
			    (!kiln_audit || order->internal || s.type != KILN_TYPE_HASH || s.is_async))
				continue;
			order->cases++;
			kiln_ask_there(&s, &m, &kiln_wheres[j], false);
			if (s.type == KILN_TYPE_HASH)
				continue;
			order->cases++;
			kiln_ask_there(&s, &m, &kiln_wheres[j], true);
		}
	}
	kiln_message_free(&m);
	kiln_subject_close(&s);
}
