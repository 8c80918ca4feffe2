// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Values: whatever arguments a driver gets, the result must be an error or the right answer, never
 * a crash. The oracle tries keys of every length and format; tags of every size; messages that are
 * empty, too short for the mode, or forged; lists with empty entries; and counters and IVs just
 * before every carry. For these counters and IVs, the parent compares the answers of all drivers of
 * an algorithm.
 */
#include <linux/kernel.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <crypto/aead.h>
#include <crypto/authenc.h>
#include <crypto/hash.h>

#include "kiln/oracle.h"

/*
 * Random IVs with some bytes replaced by 0xff: the last bytes of a big-endian counter, or the first
 * bytes of a little-endian counter.
 */
static const struct kiln_carry {
	const char *name;
	u8 last, first;		/* number of bytes set to 0xff at the end and at the start */
	u8 less;		/* number that is subtracted from the counter */
} kiln_carries[] = {
	{ "no carry", 0, 0, 0 },
	{ "2^32", 4, 0, 1 },
	{ "2^32, 5 blocks before", 4, 0, 5 },
	{ "2^64", 8, 0, 3 },
	{ "2^96", 12, 0, 9 },
	{ "2^128", 16, 0, 0 },
	{ "2^128, 17 blocks before", 16, 0, 17 },
	{ "2^32, little-endian", 0, 4, 2 },
	{ "2^64, little-endian", 0, 8, 6 },
	{ "2^128, little-endian", 0, 16, 1 },
};

static void kiln_try_keys(struct kiln_subject *s, struct kiln_examine *order)
{
	u64 draw = kiln_seed_of(order) ^ 1;
	unsigned int len, form;

	if (!kiln_subject_keyed(s) && !s->key)
		return;
	kiln_case.op = "setkey";
	kiln_case.layout = "a key that may be malformed";
	for (len = 0; len <= 144; len++)
		for (form = 0; form < 6; form++) {
			u8 *key = kiln_fence(len, false);
			struct rtattr *attribute = (void *)key;
			struct crypto_authenc_key_param param = {};

			if (!key)
				return;
			order->cases++;
			kiln_case.len = len;
			kiln_case.number = form;
			kiln_case.varied = "form";
			kiln_draw_bytes(&draw, key, len);
			if (form < 2)
				memset(key, form ? 0xff : 0, len);
			/*
			 * Make the key look like a key in authenc's format, but with a wrong size.
			 */
			if (form >= 3 && len >= sizeof(*attribute)) {
				const u16 sizes[] = { RTA_LENGTH(sizeof(param)), 0xfff0, 3 };
				const u16 type = CRYPTO_AUTHENC_KEYA_PARAM;
				const u16 size = sizes[form - 3];

				memcpy(key, &size, 2);
				memcpy(key + 2, &type, 2);
				param.enckeylen = cpu_to_be32((u32)kiln_draw_next(&draw) >>
							      (len & 1 ? 26 : 0));
				if (len >= RTA_LENGTH(sizeof(param)))
					memcpy(key + RTA_LENGTH(0), &param, sizeof(param));
			}
			kiln_subject_setkey(s, key, len);
			kiln_unfence(key);
		}
	kiln_case.varied = NULL;
	kiln_subject_setkey(s, s->key, s->key_len);
}

/* Flips bits of an encrypted message. The driver must reject the changed message. */
static void kiln_forge(struct kiln_subject *s, struct kiln_examine *order, struct kiln_message *m)
{
	const unsigned int all = m->len + s->tag;
	unsigned int i;

	kiln_case.op = "decrypt";
	kiln_case.layout = "forged";
	for (i = 0; i < all; i += i < m->len ? 13 : 1) {
		u8 *byte = m->sealed + m->aad + i;

		order->cases++;
		*byte ^= 1 << (i & 7);
		kiln_message_open(s, m);
		if (!m->open_error)
			kiln_violates("forgery", "accepts a message of which byte %u of %u was changed",
				      i, all);
		*byte ^= 1 << (i & 7);
	}
}

static void kiln_try_tags(struct kiln_subject *s, struct kiln_examine *order,
			  struct kiln_message *m, u64 *draw)
{
	const unsigned int usual = s->tag;
	unsigned int tag;

	for (tag = 0; tag <= 64; tag++) {
		kiln_case.op = "setauthsize";
		kiln_case.number = tag;
		kiln_case.varied = "tag size";
		order->cases++;
		if (crypto_aead_setauthsize(s->tfm, tag))
			continue;
		s->tag = tag;
		kiln_case.op = "encrypt";
		kiln_case.layout = "ordinary";
		kiln_case.len = 64;
		kiln_case.aad = s->aad;
		kiln_message_seal(s, m, 64, s->aad, draw);
		if (m->error)
			continue;
		kiln_message_open(s, m);
		/* Ignore shorter tags, because a forgery may match them by chance. */
		if (!m->open_error && tag >= 4)
			kiln_forge(s, order, m);
	}
	s->tag = usual;
	crypto_aead_setauthsize(s->tfm, usual);
	kiln_case.varied = NULL;
}

/* Tries every length of message and associated data, including lengths that are too short. */
static void kiln_try_lengths(struct kiln_subject *s, struct kiln_examine *order,
			     struct kiln_message *m, u64 *draw)
{
	struct scatterlist src, dst;
	struct kiln_call call = { .src = &src, .dst = &dst, .iv = m->iv_out, .decrypt = true };
	unsigned int len, aad;

	kiln_case.layout = "ordinary";
	for (len = 0; len <= 40; len++)
		for (aad = 0; aad <= (s->type == KILN_TYPE_AEAD ? 24 : 0); aad += 4) {
			order->cases++;
			kiln_case.op = s->type == KILN_TYPE_HASH ? "digest" : "encrypt";
			kiln_case.len = len;
			kiln_case.aad = aad;
			kiln_message_seal(s, m, len, aad, draw);
			if (s->type == KILN_TYPE_HASH)
				continue;
			/* Decrypt a message whose length including the tag is @len. */
			kiln_case.op = "decrypt";
			kiln_draw_bytes(draw, m->sealed, aad + len);
			memcpy(m->iv_out, m->iv, sizeof(m->iv));
			sg_init_one(&src, m->sealed, aad + len);
			sg_init_one(&dst, m->room, aad + len);
			call.len = len;
			call.aad = aad;
			if (!kiln_ask(s, &call) && len < s->tag)
				kiln_violates("forgery", "accepts a message of %u bytes, less than a tag",
					      len);
		}
}

enum kiln_place { EMPTY_AT_START, EMPTY_IN_MIDDLE, EMPTY_AT_END, NO_EMPTY };

static unsigned int kiln_list_bytes(const struct kiln_subject *s, const struct kiln_message *m)
{
	return s->type == KILN_TYPE_HASH ? m->len : m->aad + m->len + s->tag;
}

/*
 * Makes the request in place, with a list of two entries that meet at @cut, and with an empty entry
 * in the given place.
 */
static int kiln_ask_list(struct kiln_subject *s, struct kiln_message *m, unsigned int cut,
			 enum kiln_place empty, u8 *digest, size_t size)
{
	const unsigned int all = kiln_list_bytes(s, m);
	const unsigned int starts[] = { 0, cut, all };
	struct scatterlist src[3];
	const struct kiln_call call = { .src = src, .dst = src, .len = m->len, .aad = m->aad,
					.iv = m->iv_out, .result = digest };
	unsigned int i, n = 0;

	sg_init_table(src, empty == NO_EMPTY ? 2 : 3);
	for (i = 0; i < ARRAY_SIZE(starts); i++) {
		if (i == empty)
			sg_set_buf(&src[n++], m->room + starts[i], 0);
		if (starts[i] < all)
			sg_set_buf(&src[n++], m->room + starts[i], starts[i + 1] - starts[i]);
	}
	memcpy(m->room, m->text, m->aad + m->len);
	memcpy(m->iv_out, m->iv, sizeof(m->iv));
	memset(digest, 0, size);
	return kiln_ask(s, &call);
}

/*
 * Passes lists with an empty entry at the start, in the middle or at the end. The answer must be
 * the same as without the entry, or an error.
 */
static void kiln_try_lists(struct kiln_subject *s, struct kiln_examine *order,
			   struct kiln_message *m, u64 *draw)
{
	static const char *const layouts[] = {
		[EMPTY_AT_START] = "a list with an empty entry before its first",
		[EMPTY_IN_MIDDLE] = "a list with an empty entry before its last",
		[EMPTY_AT_END] = "a list with an empty entry at its end",
		[NO_EMPTY] = "in place, a list of two entries",
	};
	const unsigned int len = 96;
	u8 digest[128], right[128];
	unsigned int all, cut;
	int place;

	kiln_case.op = s->type == KILN_TYPE_HASH ? "digest" : "encrypt";
	kiln_case.len = len;
	kiln_case.aad = s->aad;
	kiln_message_seal(s, m, len, s->aad, draw);
	if (m->error)
		return;
	all = kiln_list_bytes(s, m);
	for (cut = 1; cut < all; cut += 15) {
		kiln_case.layout = layouts[NO_EMPTY];
		if (kiln_ask_list(s, m, cut, NO_EMPTY, right, sizeof(right)))
			return;
		memcpy(m->opened, m->room, all);
		for (place = EMPTY_AT_START; place <= EMPTY_AT_END; place++) {
			order->cases++;
			kiln_case.layout = layouts[place];
			if (kiln_ask_list(s, m, cut, place, digest, sizeof(digest)))
				continue;
			if (memcmp(digest, right, sizeof(right)) || memcmp(m->room, m->opened, all))
				kiln_violates("answer", "the answer is wrong; without the empty entry it is right");
		}
	}
}

/* Makes requests of length zero, without a scatterlist. */
static void kiln_try_no_list(struct kiln_subject *s, struct kiln_examine *order,
			     struct kiln_message *m, u64 *draw)
{
	u8 digest[128] = {};
	const struct kiln_call call = { .iv = m->iv_out, .result = digest };

	kiln_case.op = s->type == KILN_TYPE_HASH ? "digest" : "encrypt";
	kiln_case.layout = "no list";
	kiln_case.len = kiln_case.aad = 0;
	order->cases++;
	kiln_message_seal(s, m, 0, 0, draw);
	memcpy(m->iv_out, m->iv, sizeof(m->iv));
	if (!kiln_ask(s, &call) && s->type == KILN_TYPE_HASH && !m->error &&
	    memcmp(digest, m->sealed, s->digest))
		kiln_violates("answer", "the digest of nothing, without a list, is wrong");
}

/* Encrypts with counters and IVs just before a carry. */
static void kiln_try_carries(struct kiln_subject *s, struct kiln_examine *order,
			     struct kiln_message *m)
{
	static const u16 lengths[] = { 16, 64, 160, 288, 512, 1040 };
	u64 draw = kiln_seed_of(order);
	unsigned int i, j, k;

	/*
	 * Include the key in the answers, because answers with different keys cannot be compared.
	 */
	order->answers[0] = kiln_hash(1, s->key, s->key_len);
	for (i = 0; i < ARRAY_SIZE(kiln_carries) && i + 1 < order->room; i++) {
		const struct kiln_carry *c = &kiln_carries[i];
		u64 answer = 1;

		kiln_case.op = s->type == KILN_TYPE_HASH ? "digest" : "encrypt";
		kiln_case.layout = c->name;
		for (j = 0; j < ARRAY_SIZE(lengths); j++) {
			struct scatterlist src, dst;
			struct kiln_call call = { .src = &src, .dst = &dst, .len = lengths[j],
						  .aad = s->aad, .iv = m->iv_out,
						  .result = m->sealed };
			int error;

			order->cases++;
			kiln_case.len = lengths[j];
			kiln_draw_bytes(&draw, m->iv, sizeof(m->iv));
			kiln_draw_bytes(&draw, m->text, s->aad + lengths[j]);
			if (!i)
				m->iv[0] = 3;
			for (k = 0; k < c->last && k < s->iv; k++)
				m->iv[s->iv - 1 - k] = k ? 0xff : 0xff - c->less;
			for (k = 0; k < c->first && k < s->iv; k++)
				m->iv[k] = k ? 0xff : 0xff - c->less;
			if (s->aad >= s->iv)
				memcpy(m->text + s->aad - s->iv, m->iv, s->iv);
			memcpy(m->iv_out, m->iv, sizeof(m->iv));
			memcpy(m->sealed, m->text, s->aad);
			sg_init_one(&src, m->text, s->aad + lengths[j]);
			sg_init_one(&dst, m->sealed, s->aad + lengths[j] + s->tag);
			error = kiln_ask(s, &call);
			answer = kiln_hash(answer, &error, sizeof(error));
			if (error)
				continue;
			m->len = lengths[j];
			m->aad = s->aad;
			answer = kiln_hash(answer, m->sealed, kiln_message_sealed(s, m));
		}
		order->answers[i + 1] = answer;
		order->count = i + 2;
	}
}

void kiln_examine_values(struct kiln_examine *order)
{
	unsigned long first[1 + ARRAY_SIZE(kiln_carries)];
	struct kiln_message m = {};
	struct kiln_subject s;
	u64 draw = kiln_seed_of(order);
	unsigned int i;

	order->error = kiln_message_alloc(&m) ?: kiln_subject_open(&s, order);
	if (order->error) {
		kiln_message_free(&m);
		return;
	}
	kiln_try_carries(&s, order, &m);
	memcpy(first, order->answers, order->count * sizeof(*first));
	kiln_try_lengths(&s, order, &m, &draw);
	kiln_try_lists(&s, order, &m, &draw);
	if (s.type != KILN_TYPE_AEAD)
		kiln_try_no_list(&s, order, &m, &draw);
	else
		kiln_try_tags(&s, order, &m, &draw);
	kiln_try_keys(&s, order);
	kiln_subject_close(&s);
	/*
	 * Repeat the requests with another transform. A driver that randomises its answers is
	 * excluded from the comparison.
	 */
	order->error = kiln_subject_open(&s, order);
	if (!order->error) {
		kiln_try_carries(&s, order, &m);
		kiln_subject_close(&s);
	}
	for (i = 0; i < order->count; i++)
		if (order->error || first[i] != order->answers[i])
			order->answers[i] = 0;
	kiln_message_free(&m);
}
