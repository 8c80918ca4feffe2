// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Leaks: when a transform is freed, everything allocated for it must be freed too, and the driver
 * must have as many references as before. The requests include rejected keys and forged messages.
 */
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <crypto/aead.h>
#include <crypto/hash.h>
#include <crypto/skcipher.h>

#include "kiln/oracle.h"

static struct crypto_tfm *kiln_base(struct kiln_subject *s)
{
	switch (s->type) {
	case KILN_TYPE_SKCIPHER:
		return crypto_skcipher_tfm(s->tfm);
	case KILN_TYPE_AEAD:
		return crypto_aead_tfm(s->tfm);
	default:
		return crypto_ahash_tfm(s->tfm);
	}
}

/* Returns the driver's reference count while it is open. */
static int kiln_use(struct kiln_examine *order, struct kiln_message *m, u64 draw, int *error)
{
	static const u16 lengths[] = { 0, 16, 33, 304, 4097 };
	struct kiln_subject s;
	u8 key[] = { 1, 2, 3 };
	unsigned int i;
	int references;

	*error = kiln_subject_open(&s, order);
	if (*error)
		return 0;
	references = refcount_read(&kiln_base(&s)->__crt_alg->cra_refcnt);
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		kiln_case.op = "encrypt";
		kiln_case.layout = "ordinary";
		kiln_case.len = lengths[i];
		kiln_message_seal(&s, m, lengths[i], s.aad, &draw);
		order->cases++;
		if (m->error || s.type == KILN_TYPE_HASH)
			continue;
		kiln_case.op = "decrypt";
		kiln_message_open(&s, m);
		/* Forge the message. */
		m->sealed[m->aad + m->len + s.tag - 1] ^= 1;
		kiln_message_open(&s, m);
	}
	kiln_case.op = "setkey";
	kiln_subject_setkey(&s, key, sizeof(key));
	kiln_case.op = "free";
	kiln_subject_close(&s);
	return references;
}

void kiln_examine_leaks(struct kiln_examine *order)
{
	struct kiln_message m = {};
	const u64 draw = kiln_seed_of(order);
	unsigned long mark;
	int before, after;

	order->error = kiln_message_alloc(&m);
	if (order->error)
		return;
	/* Allocations of the first call may be permanent. */
	before = kiln_use(order, &m, draw, &order->error);
	if (!order->error) {
		mark = kiln_mark();
		kiln_guard(true);
		after = kiln_use(order, &m, draw, &order->error);
		kiln_guard(false);
		kiln_leaked(mark, true);
		if (after != before)
			kiln_violates("reference", "has %d references where it had %d before",
				      after, before);
	}
	kiln_message_free(&m);
}
