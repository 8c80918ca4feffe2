// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Leaks: freeing a transform must free all memory allocated for it, and must restore the reference
 * counts of all drivers. Before it is freed, the transform gets a second key, keys that the driver
 * rejects, and forged messages.
 */
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <crypto/algapi.h>
#include <../crypto/internal.h>

#include "kiln/oracle.h"

#define MOST 4096u
#define NEAR 32u

static struct {
	const struct crypto_alg *alg;
	unsigned int count;
} kiln_counts[MOST];

/* Records the reference counts. Waits for pending work first, because it may hold references. */
void kiln_note_references(void)
{
	const struct crypto_alg *alg;
	unsigned int i = 0;

	kiln_settle();
	memset(kiln_counts, 0, sizeof(kiln_counts));
	list_for_each_entry(alg, &crypto_alg_list, cra_list) {
		if (i == MOST || alg->cra_flags & (CRYPTO_ALG_LARVAL | CRYPTO_ALG_DEAD))
			continue;
		kiln_counts[i].alg = alg;
		kiln_counts[i++].count = refcount_read(&alg->cra_refcnt);
	}
}

void kiln_check_references(void)
{
	const struct crypto_alg *alg;
	unsigned int from = 0, i;

	kiln_settle();
	list_for_each_entry(alg, &crypto_alg_list, cra_list) {
		const unsigned int count = refcount_read(&alg->cra_refcnt);

		/*
		 * Apart from added and removed algorithms, the list has the same order as before,
		 * so the entry must be nearby.
		 */
		for (i = from; i < min(from + NEAR, MOST) && kiln_counts[i].alg != alg; i++)
			;
		if (i == min(from + NEAR, MOST))
			continue;
		from = i + 1;
		if (kiln_counts[i].count == count)
			continue;
		kiln_violates("reference", "%s has %u references where it had %u before",
			      alg->cra_driver_name, count, kiln_counts[i].count);
		kiln_counts[i].count = count;
	}
}

static void kiln_use(struct kiln_examine *order, struct kiln_message *m, u64 draw)
{
	static const u16 lengths[] = { 0, 16, 33, 304, 4097 };
	struct kiln_subject s;
	u8 key[] = { 1, 2, 3 };
	unsigned int i;

	order->error = kiln_subject_open(&s, order);
	if (order->error)
		return;
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
		/* Forge the message by changing its last byte. */
		m->sealed[m->aad + m->len + s.tag - 1] ^= 1;
		kiln_message_open(&s, m);
	}
	kiln_case.op = "setkey";
	kiln_subject_setkey(&s, key, sizeof(key));
	if (s.key) {
		kiln_subject_setkey(&s, s.key, s.key_len);
		kiln_subject_setkey(&s, s.key, s.key_len);
	}
	kiln_case.op = "free";
	kiln_subject_close(&s);
}

void kiln_examine_leaks(struct kiln_examine *order)
{
	struct kiln_message m = {};
	const u64 draw = kiln_seed_of(order);
	unsigned long mark;

	order->error = kiln_message_alloc(&m);
	if (order->error)
		return;
	/* Do not check the first use, because it may allocate memory permanently. */
	kiln_use(order, &m, draw);
	if (!order->error) {
		kiln_note_references();
		mark = kiln_mark();
		kiln_guard(true);
		kiln_use(order, &m, draw);
		kiln_guard(false);
		kiln_leaked(mark, true);
		kiln_check_references();
	}
	kiln_message_free(&m);
}
