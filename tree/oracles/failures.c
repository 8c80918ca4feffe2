// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Failures: each allocation in turn fails, once. The request must then fail or return the right
 * answer, but never succeed with a wrong answer, and it must not leak memory.
 */
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "kiln/oracle.h"

static const u16 kiln_lengths[] = { 48, 128, 4112 };

/* Returns 0 and a hash of the answers, or an error. */
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

void kiln_examine_failures(struct kiln_examine *order)
{
	struct kiln_message m = {};
	unsigned long i, count, mark;
	u64 right, again, answer;
	int error, usual;

	order->error = kiln_message_alloc(&m);
	if (order->error)
		return;
	usual = kiln_work(order, &m, &right);
	kiln_fail(-1);
	kiln_guard(true);
	error = kiln_work(order, &m, &again);
	count = kiln_allocations();
	if (!order->thorough)
		count = min(count, 60ul);
	for (i = 0; i < count && error == usual; i++) {
		kiln_case.varied = "failing allocation";
		kiln_case.number = i;
		order->cases++;
		mark = kiln_mark();
		kiln_fail(i);
		error = kiln_work(order, &m, &answer);
		kiln_fail(-1);
		/* Some drivers draw their answers at random. */
		if (!error && !usual && right == again && answer != right)
			kiln_violates("answer", "a failed allocation makes the answer wrong, without an error");
		if (error > 0)
			kiln_violates("error", "returns %d", error);
		kiln_leaked(mark, true);
		error = usual;
	}
	kiln_guard(false);
	kiln_case.varied = NULL;
	kiln_message_free(&m);
}
