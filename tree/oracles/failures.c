// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Failures: in each run, either one allocation fails, or one step of the walk through a scattered
 * request fails. The driver must then return an error or the right answer, but never success with a
 * wrong answer. It must not leak memory or references.
 */
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <crypto/internal/skcipher.h>

#include "kiln/oracle.h"

#define DEEPEST 16

static const u16 kiln_lengths[] = { 48, 128, 4112 };

/* Makes all requests. On success, returns 0 and stores a hash of their results in *@answer. */
static int kiln_work(struct kiln_examine *order, struct kiln_message *m, u64 *answer)
{
	u64 draw = kiln_seed_of(order);
	struct kiln_subject s;
	unsigned int i;
	int error = kiln_subject_open(&s, order);

	*answer = 1;
	if (error)
		return error;
	for (i = 0; i < ARRAY_SIZE(kiln_lengths); i++) {
		kiln_case.op = "encrypt";
		kiln_case.layout = "ordinary";
		kiln_case.len = kiln_lengths[i];
		memset(m->sealed, 0, KILN_LONGEST);
		kiln_message_seal(&s, m, kiln_lengths[i], s.aad, &draw);
		error = error ?: m->error;
		if (m->error)
			continue;
		*answer = kiln_hash(*answer, m->sealed, kiln_message_sealed(&s, m));
		if (s.type == KILN_TYPE_HASH)
			continue;
		kiln_case.op = "decrypt";
		kiln_message_open(&s, m);
		error = error ?: m->open_error;
		if (!m->open_error)
			*answer = kiln_hash(*answer, m->opened, m->aad + m->len);
	}
	kiln_case.op = "free";
	kiln_subject_close(&s);
	return error;
}

static void kiln_fail_allocations(struct kiln_examine *order, struct kiln_message *m)
{
	unsigned long i, count, mark;
	u64 right, again, answer;
	int error, usual;

	usual = kiln_work(order, m, &right);
	kiln_note_references();
	kiln_fail(-1);
	kiln_guard(true);
	error = kiln_work(order, m, &again);
	count = kiln_allocations();
	if (!order->thorough)
		count = min(count, 60ul);
	for (i = 0; i < count && error == usual; i++) {
		kiln_case.varied = "failing allocation";
		kiln_case.number = i;
		order->cases++;
		mark = kiln_mark();
		kiln_fail(i);
		error = kiln_work(order, m, &answer);
		kiln_fail(-1);
		/*
		 * Compare the answer only if it is the same in each run, because some drivers
		 * randomise their answers.
		 */
		if (!error && !usual && right == again && answer != right)
			kiln_violates("answer", "a failed allocation makes the answer wrong, without an error");
		if (error > 0)
			kiln_violates("error", "returns %d", error);
		kiln_leaked(mark, true);
		kiln_check_references();
		error = usual;
	}
	kiln_guard(false);
	kiln_case.varied = NULL;
}

/* Number of the step that fails, counted from 0; -1 if no step fails. */
static long kiln_failing_step = -1;
static unsigned long kiln_steps;
static unsigned long kiln_step_trace[DEEPEST];
static unsigned int kiln_step_depth;

int __real_skcipher_walk_done(struct skcipher_walk *walk, int result);

#define KILN_WALK(fn, type)                                                                       \
	int __real_##fn(struct skcipher_walk *walk, struct type *request, bool atomic)            \
		__attribute__((weak));                                                            \
	int kiln_failing_##fn(struct skcipher_walk *walk, struct type *request, bool atomic);     \
	KILN_JUMP(fn)                                                                             \
	int kiln_failing_##fn(struct skcipher_walk *walk, struct type *request, bool atomic)      \
	{                                                                                         \
		return kiln_end_step(walk, __real_##fn(walk, request, atomic),                    \
				     __builtin_frame_address(0));                                 \
	}

/* Called after each step of a walk. At the chosen step, ends the walk as if memory had run out. */
static int kiln_end_step(struct skcipher_walk *walk, int result, const void *frame)
{
	unsigned long step;

	if (result || !walk->nbytes)
		return result;
	step = kiln_steps++;
	if (kiln_failing_step < 0 || step != (unsigned long)kiln_failing_step)
		return 0;
	kiln_step_depth = kiln_trace(frame, kiln_step_trace, DEEPEST);
	return __real_skcipher_walk_done(walk, -ENOMEM);
}

KILN_WALK(skcipher_walk_virt, skcipher_request)
KILN_WALK(skcipher_walk_aead_encrypt, aead_request)
KILN_WALK(skcipher_walk_aead_decrypt, aead_request)

int kiln_failing_skcipher_walk_done(struct skcipher_walk *walk, int result);
KILN_JUMP(skcipher_walk_done)
int kiln_failing_skcipher_walk_done(struct skcipher_walk *walk, int result)
{
	return kiln_end_step(walk, __real_skcipher_walk_done(walk, result),
			     __builtin_frame_address(0));
}

#define KILN_TURN(fn) kiln_turn(__wrap_##fn, __real_##fn, kiln_failing_##fn, wanted)

static void kiln_watch_walks(bool wanted)
{
	KILN_TURN(skcipher_walk_virt);
	KILN_TURN(skcipher_walk_done);
	KILN_TURN(skcipher_walk_aead_encrypt);
	KILN_TURN(skcipher_walk_aead_decrypt);
}

/*
 * Makes an in-place request on a message that is split into pieces, so that the walk has several
 * steps.
 */
static int kiln_ask_in_pieces(struct kiln_subject *s, struct kiln_message *m, bool decrypt)
{
	static const u8 pieces[] = { 33, 100, 64, 17 };
	const unsigned int open = m->aad + m->len, sealed = open + s->tag;
	struct scatterlist sg[ARRAY_SIZE(pieces) + 1];
	const struct kiln_call call = { .src = sg, .dst = sg, .aad = m->aad, .iv = m->iv_out,
					.len = m->len + (decrypt ? s->tag : 0), .decrypt = decrypt };
	unsigned int at = 0, i;

	memcpy(m->room, decrypt ? m->sealed : m->text, decrypt ? sealed : open);
	memcpy(m->iv_out, m->iv, sizeof(m->iv));
	sg_init_table(sg, ARRAY_SIZE(sg));
	for (i = 0; i < ARRAY_SIZE(pieces); i++) {
		sg_set_buf(&sg[i], m->room + at, pieces[i]);
		at += pieces[i];
	}
	sg_set_buf(&sg[i], m->room + at, sealed - at);
	return kiln_ask(s, &call);
}

static u64 kiln_answer_in_pieces(const struct kiln_subject *s, const struct kiln_message *m, bool decrypt)
{
	return kiln_hash(1, m->room, decrypt ? m->aad + m->len : kiln_message_sealed(s, m));
}

static void kiln_fail_steps(struct kiln_examine *order, struct kiln_message *m, bool decrypt,
			    struct kiln_subject *s)
{
	unsigned long count, i;
	u64 right, again;

	kiln_case.op = decrypt ? "decrypt" : "encrypt";
	kiln_case.layout = "in place, in pieces";
	kiln_steps = 0;
	if (kiln_ask_in_pieces(s, m, decrypt))
		return;
	right = kiln_answer_in_pieces(s, m, decrypt);
	count = kiln_steps;
	kiln_ask_in_pieces(s, m, decrypt);
	again = kiln_answer_in_pieces(s, m, decrypt);
	if (!order->thorough)
		count = min(count, 24ul);
	kiln_case.varied = "failing step of a walk";
	for (i = 0; i < count; i++) {
		const unsigned long mark = kiln_mark();
		int error;

		order->cases++;
		kiln_case.number = i;
		kiln_steps = 0;
		kiln_failing_step = i;
		error = kiln_ask_in_pieces(s, m, decrypt);
		kiln_failing_step = -1;
		if (error > 0)
			kiln_violated_at("error", "a failed step of a walk makes a positive answer",
					 kiln_step_trace, kiln_step_depth);
		if (!error && right == again && kiln_answer_in_pieces(s, m, decrypt) != right)
			kiln_violated_at("answer", "a failed step of a walk makes the answer wrong, without an error",
					 kiln_step_trace, kiln_step_depth);
		kiln_leaked(mark, true);
	}
	kiln_case.varied = NULL;
}

static void kiln_fail_walks(struct kiln_examine *order, struct kiln_message *m)
{
	struct kiln_subject s;
	u64 draw = kiln_seed_of(order);

	kiln_guard(true);
	if (!kiln_subject_open(&s, order)) {
		kiln_case.op = "encrypt";
		kiln_case.layout = "ordinary";
		kiln_case.len = 304;
		kiln_case.aad = s.aad;
		kiln_message_seal(&s, m, 304, s.aad, &draw);
		kiln_watch_walks(true);
		if (!m->error) {
			kiln_fail_steps(order, m, false, &s);
			kiln_fail_steps(order, m, true, &s);
		}
		kiln_watch_walks(false);
		kiln_subject_close(&s);
	}
	kiln_guard(false);
}

void kiln_examine_failures(struct kiln_examine *order)
{
	struct kiln_message m = {};

	order->error = kiln_message_alloc(&m);
	if (order->error)
		return;
	kiln_fail_allocations(order, &m);
	if (order->type != KILN_TYPE_HASH)
		kiln_fail_walks(order, &m);
	kiln_message_free(&m);
}
