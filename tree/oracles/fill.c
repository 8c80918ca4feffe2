// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Fill: uninitialised memory must not affect results. The same requests are made twice, with the
 * heap and the stack filled with a different byte each time. The answers must be the same.
 */
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <crypto/hash.h>

#include "kiln/oracle.h"

#define DEPTH 12

/* Fills the stack below the caller's frame with @byte. */
static noinline int kiln_paint(unsigned int depth, u8 byte)
{
	volatile u8 frame[1024];
	unsigned int i;

	for (i = 0; i < sizeof(frame); i++)
		frame[i] = byte;
	return (depth ? kiln_paint(depth - 1, byte) : 0) + frame[depth];
}

/*
 * Exports the hash's state, imports it, and completes the hash. If the driver uses parts of the
 * state that it has not written, the digest depends on the fill byte.
 */
static int kiln_hash_twice(struct kiln_subject *s, struct kiln_message *m, u8 *state, u8 *result)
{
	const unsigned int first = m->len / 3;
	int error = kiln_hash_step(s, m->text, 0, result, crypto_ahash_init);

	error = error ?: kiln_hash_step(s, m->text, first, result, crypto_ahash_update);
	if (error || crypto_ahash_export(s->request, state))
		return error;
	return crypto_ahash_import(s->request, state) ?:
	       kiln_hash_step(s, m->text + first, m->len - first, result, crypto_ahash_finup);
}

static u64 kiln_filled(struct kiln_examine *order, struct kiln_message *m, u8 byte)
{
	static const u16 lengths[] = { 16, 31, 64, 100, 257, 1040, 4100 };
	u64 draw = kiln_seed_of(order), answer = 1;
	struct kiln_subject s;
	unsigned int i;

	kiln_fill(byte);
	kiln_paint(DEPTH, byte);
	order->error = kiln_subject_open(&s, order);
	for (i = 0; i < ARRAY_SIZE(lengths) && !order->error; i++) {
		kiln_case.op = "encrypt";
		kiln_case.layout = "ordinary";
		kiln_case.len = lengths[i];
		order->cases++;
		memset(m->sealed, 0, KILN_LONGEST);
		kiln_paint(DEPTH, byte);
		kiln_message_seal(&s, m, lengths[i], s.aad, &draw);
		answer = kiln_hash(answer, &m->error, sizeof(m->error));
		answer = kiln_hash(answer, m->iv_out, s.iv);
		if (m->error)
			continue;
		answer = kiln_hash(answer, m->sealed, kiln_message_sealed(&s, m));
		if (s.type == KILN_TYPE_HASH) {
			u8 *state = kmalloc(s.state + s.digest, GFP_KERNEL);
			int error = state ? kiln_hash_twice(&s, m, state, state + s.state) : -ENOMEM;

			if (error && error != -ENOSYS)
				answer = kiln_hash(answer, &error, sizeof(error));
			kfree(state);
			continue;
		}
		kiln_case.op = "decrypt";
		kiln_paint(DEPTH, byte);
		kiln_message_open(&s, m);
		answer = kiln_hash(answer, &m->open_error, sizeof(m->open_error));
		answer = kiln_hash(answer, m->opened, m->aad + m->len);
	}
	kiln_fill(-1);
	if (!order->error)
		kiln_subject_close(&s);
	return answer;
}

void kiln_examine_fill(struct kiln_examine *order)
{
	struct kiln_message m = {};
	u64 one, again, other;

	order->error = kiln_message_alloc(&m);
	if (order->error)
		return;
	one = kiln_filled(order, &m, 0x11);
	again = order->error ? one : kiln_filled(order, &m, 0x11);
	other = order->error ? one : kiln_filled(order, &m, 0xee);
	/* Compare only answers that are the same in each run: some drivers randomise them. */
	if (one == again && one != other)
		kiln_violates("uninitialised",
			      "answers depend on memory that was never written: they differ if it is filled with 0x11 and with 0xee");
	kiln_message_free(&m);
}
