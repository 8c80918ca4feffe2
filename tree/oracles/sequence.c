// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Sequence: checks sequences of calls. A transform that has no key, or whose last key was rejected,
 * must reject requests. A second key must replace the first completely. In chaining modes, the next
 * request must be able to continue the message with the IV that a request leaves. A hash must give
 * the same digest regardless of how the message is divided among update and finup calls, and of the
 * point at which the hash state is moved to another request.
 *
 * The parent compares which sizes, keys, tags and lengths the drivers of an algorithm accept.
 */
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <crypto/aead.h>
#include <crypto/hash.h>
#include <crypto/skcipher.h>

#include "kiln/oracle.h"

#define LONGEST_KEY 144		/* longest key to try, in bytes */
#define MOST_UNITS 33

/*
 * Traits in which all drivers of an algorithm must agree. Their names are in
 * crates/kiln-tree/src/oracle.rs.
 */
enum kiln_trait {
	KILN_TRAIT_SIZES = 1,
	KILN_TRAIT_KEYS,
	KILN_TRAIT_WEAK_KEYS,
	KILN_TRAIT_TAGS,
	KILN_TRAIT_MESSAGES,
	KILN_TRAIT_CHAINS,
	KILN_TRAITS
};

/* Adds @value to the hash that represents a trait. */
static void kiln_add(struct kiln_examine *order, enum kiln_trait trait, u64 value)
{
	order->answers[trait] = kiln_hash(order->answers[trait], &value, sizeof(value));
}

/*
 * Encrypts or hashes a fixed message, and returns a hash of the answer. Some drivers randomise
 * their answers, so the return value can differ from call to call.
 */
static u64 kiln_answer(struct kiln_subject *s, struct kiln_message *m, int *error)
{
	u64 draw = kiln_seed_of(s->order) ^ 2, answer;
	const unsigned int len = 64;

	kiln_case.op = s->type == KILN_TYPE_HASH ? "digest" : "encrypt";
	kiln_case.len = len;
	kiln_case.aad = s->aad;
	kiln_message_seal(s, m, len, s->aad, &draw);
	*error = m->error;
	answer = kiln_hash(1, &m->error, sizeof(m->error));
	return m->error ? answer : kiln_hash(answer, m->sealed, kiln_message_sealed(s, m));
}

static int kiln_open_another(struct kiln_subject *another, const struct kiln_subject *s)
{
	int error = kiln_subject_alloc(another, s->order);

	if (error)
		return error;
	another->aad = s->aad;
	error = kiln_subject_request(another);
	if (error)
		kiln_subject_close(another);
	return error;
}

/*
 * Checks that a transform without a key rejects a message. Algorithms that accept an empty key are
 * exempt, because they need no key.
 */
static void kiln_try_no_key(struct kiln_examine *order, struct kiln_subject *s, struct kiln_message *m)
{
	struct kiln_subject keyless;
	int error;

	if (!s->key || kiln_open_another(&keyless, s))
		return;
	order->cases++;
	kiln_case.layout = "without a key";
	kiln_answer(&keyless, m, &error);
	if (error && s->type == KILN_TYPE_HASH) {
		kiln_case.op = "init";
		error = kiln_hash_step(&keyless, m->text, 0, m->sealed, crypto_ahash_init);
	}
	if (!error && kiln_subject_setkey(&keyless, s->key, 0))
		kiln_violates("no-key", "answers without a key");
	kiln_subject_close(&keyless);
}

/*
 * Sets keys of increasing length until one is rejected. Returns the length of that key, or 0 if no
 * key is rejected. @by_driver is set if the driver itself rejected the key; the transform is then
 * without a key. For skciphers, the crypto API rejects out-of-range lengths, and the previous key
 * stays valid.
 */
static unsigned int kiln_refused(struct kiln_subject *s, const u8 *key, bool *by_driver)
{
	unsigned int len, least = 1, most = LONGEST_KEY;

	*by_driver = true;
	if (s->type == KILN_TYPE_SKCIPHER) {
		least = max(crypto_skcipher_min_keysize(s->tfm), 1u);
		most = min(crypto_skcipher_max_keysize(s->tfm), most);
	}
	for (len = least; len <= most; len++)
		if (kiln_subject_setkey(s, key, len))
			return len;
	*by_driver = false;
	kiln_subject_setkey(s, s->key, s->key_len);
	return kiln_subject_setkey(s, key, LONGEST_KEY) ? LONGEST_KEY : 0;
}

static void kiln_try_refused_key(struct kiln_examine *order, struct kiln_subject *s,
				 struct kiln_message *m)
{
	static u8 key[LONGEST_KEY];
	u64 draw = kiln_seed_of(order) ^ 3, before, again, after;
	bool by_driver;
	unsigned int len;
	int error;

	kiln_case.layout = "ordinary";
	before = kiln_answer(s, m, &error);
	again = kiln_answer(s, m, &error);
	kiln_draw_bytes(&draw, key, sizeof(key));
	/* Some drivers randomise their answers, so compare them only if two equal runs agree. */
	if (error || before != again)
		return;
	len = kiln_refused(s, key, &by_driver);
	if (len) {
		order->cases++;
		kiln_case.layout = "after a key that was refused";
		after = kiln_answer(s, m, &error);
		if (!error && by_driver)
			kiln_violates("refused-key", "answers though it has refused its last key, of %u bytes",
				      len);
		else if (!error && after != before)
			kiln_violates("refused-key", "the answer is wrong after a key of %u bytes was refused",
				      len);
	}
	if (kiln_subject_setkey(s, s->key, s->key_len) || kiln_answer(s, m, &error) != before)
		kiln_violates("refused-key", "the answer is wrong, or %d, with the right key after a wrong one",
			      error);
}

/* Returns the answer of a new transform that has only this key, or 0 on error. */
static u64 kiln_fresh_answer(const struct kiln_subject *s, struct kiln_message *m, const u8 *key)
{
	struct kiln_subject fresh;
	u64 answer = 0;
	int error;

	if (kiln_open_another(&fresh, s))
		return 0;
	if (!kiln_subject_setkey(&fresh, key, s->key_len)) {
		answer = kiln_answer(&fresh, m, &error);
		if (error)
			answer = 0;
	}
	kiln_subject_close(&fresh);
	return answer;
}

static void kiln_try_second_key(struct kiln_examine *order, struct kiln_subject *s,
				struct kiln_message *m)
{
	u8 *second = kmemdup(s->key, s->key_len, GFP_KERNEL);
	u64 right, again;
	unsigned int i;
	int error;

	/*
	 * Change only the key's second half, because a key for authenc begins with a description of
	 * its format.
	 */
	for (i = s->key_len / 2; second && i < s->key_len; i++)
		second[i] ^= 0x5a;
	kiln_case.layout = "with another transform";
	right = second ? kiln_fresh_answer(s, m, second) : 0;
	again = second ? kiln_fresh_answer(s, m, second) : 0;
	if (right && right == again && !kiln_subject_setkey(s, second, s->key_len)) {
		order->cases++;
		kiln_case.layout = "after a second key";
		if (kiln_answer(s, m, &error) != right)
			kiln_violates("rekey",
				      "its answer after a second key is not that of a transform that has had this key only");
	}
	kfree(second);
	kiln_subject_setkey(s, s->key, s->key_len);
}

static void kiln_compare_keys(struct kiln_examine *order, struct kiln_subject *s)
{
	static u8 key[LONGEST_KEY];
	u64 draw = kiln_seed_of(order) ^ 4;
	unsigned int len, i;

	kiln_case.op = "setkey";
	kiln_case.layout = "a key that may be of a wrong length";
	for (len = 0; len <= LONGEST_KEY; len++) {
		int error;

		order->cases++;
		kiln_case.len = len;
		kiln_draw_bytes(&draw, key, len);
		error = kiln_subject_setkey(s, key, len);
		kiln_add(order, KILN_TRAIT_KEYS, !error);
		if (error || s->type != KILN_TYPE_SKCIPHER)
			continue;
		/* DES and XTS have weak keys. A weak XTS key consists of two equal halves. */
		crypto_skcipher_set_flags(s->tfm, CRYPTO_TFM_REQ_FORBID_WEAK_KEYS);
		for (i = 0; i < len / 2; i++)
			key[i] = key[len / 2 + i];
		kiln_add(order, KILN_TRAIT_WEAK_KEYS, !kiln_subject_setkey(s, key, len));
		memset(key, 1, len);
		kiln_add(order, KILN_TRAIT_WEAK_KEYS, !kiln_subject_setkey(s, key, len));
		crypto_skcipher_clear_flags(s->tfm, CRYPTO_TFM_REQ_FORBID_WEAK_KEYS);
	}
	kiln_subject_setkey(s, s->key, s->key_len);
}

static void kiln_compare_tags(struct kiln_examine *order, struct kiln_subject *s)
{
	unsigned int tag;

	kiln_case.op = "setauthsize";
	kiln_case.layout = NULL;
	for (tag = 0; tag <= 64; tag++) {
		order->cases++;
		kiln_add(order, KILN_TRAIT_TAGS, !crypto_aead_setauthsize(s->tfm, tag));
	}
	crypto_aead_setauthsize(s->tfm, s->tag);
}

static void kiln_compare_sizes(struct kiln_examine *order, struct kiln_subject *s)
{
	kiln_add(order, KILN_TRAIT_SIZES, s->iv);
	kiln_add(order, KILN_TRAIT_SIZES, s->block);
	kiln_add(order, KILN_TRAIT_SIZES, s->tag);
	kiln_add(order, KILN_TRAIT_SIZES, s->digest);
	if (s->type == KILN_TYPE_SKCIPHER)
		kiln_add(order, KILN_TRAIT_SIZES, crypto_skcipher_chunksize(s->tfm));
}

static void kiln_compare_message(struct kiln_examine *order, struct kiln_subject *s,
				 struct kiln_message *m, unsigned int len, unsigned int aad, u64 *draw)
{
	order->cases++;
	kiln_case.op = s->type == KILN_TYPE_HASH ? "digest" : "encrypt";
	kiln_case.len = len;
	kiln_case.aad = aad;
	kiln_message_seal(s, m, len, aad, draw);
	kiln_add(order, KILN_TRAIT_MESSAGES, !m->error);
	if (m->error || s->type == KILN_TYPE_HASH)
		return;
	kiln_case.op = "decrypt";
	kiln_message_open(s, m);
	kiln_add(order, KILN_TRAIT_MESSAGES, !m->open_error);
}

/* Records which messages the driver accepts. The oracle "values" compares the answers. */
static void kiln_compare_messages(struct kiln_examine *order, struct kiln_subject *s,
				  struct kiln_message *m)
{
	u64 draw = kiln_seed_of(order) ^ 5;
	unsigned int i;

	kiln_case.layout = "ordinary";
	for (i = 0; i <= 40; i++)
		kiln_compare_message(order, s, m, i, s->aad, &draw);
	for (i = 0; i <= 24 && s->type == KILN_TYPE_AEAD; i++)
		kiln_compare_message(order, s, m, 32, i, &draw);
}

/*
 * Excludes the trait from the comparison if a second run accepts different messages. This happens
 * with generated IVs, which are random: CCM then accepts a message only by chance.
 */
static void kiln_check_random(struct kiln_examine *order, struct kiln_subject *s,
			      struct kiln_message *m)
{
	const unsigned long first = order->answers[KILN_TRAIT_MESSAGES];
	struct kiln_subject another;

	if (kiln_open_another(&another, s))
		return;
	order->answers[KILN_TRAIT_MESSAGES] = 1;
	if (!s->key || !kiln_subject_setkey(&another, s->key, s->key_len))
		kiln_compare_messages(order, &another, m);
	if (order->answers[KILN_TRAIT_MESSAGES] != first)
		order->answers[KILN_TRAIT_MESSAGES] = 0;
	kiln_subject_close(&another);
}

static int kiln_crypt(struct kiln_subject *s, const u8 *from, u8 *to, unsigned int len, u8 *iv,
		      bool decrypt)
{
	struct scatterlist src, dst;
	const struct kiln_call call = { .src = &src, .dst = from == to ? &src : &dst, .len = len,
					.iv = iv, .decrypt = decrypt };

	kiln_case.len = len;
	sg_init_one(&src, from, len);
	sg_init_one(&dst, to, len);
	return kiln_ask(s, &call);
}

/* Returns whether the API defines which IV a request in this mode leaves. */
static bool kiln_must_chain(const char *alg)
{
	static const char *const modes[] = { "cbc(", "ctr(", "ofb(", "cfb(", "pcbc(" };
	unsigned int i;

	if (!strncmp(alg, "__", 2))
		alg += 2;
	for (i = 0; i < ARRAY_SIZE(modes); i++)
		if (!strncmp(alg, modes[i], strlen(modes[i])))
			return true;
	return false;
}

/*
 * Returns whether two requests give the same result as a single one, if the second request uses the
 * IV that the first one left.
 */
static bool kiln_chains(struct kiln_subject *s, struct kiln_message *m, unsigned int first,
			bool decrypt, bool in_place)
{
	const u8 *from = in_place ? m->room : m->text;
	u8 iv[64];

	memcpy(iv, m->iv, sizeof(iv));
	memcpy(m->room, in_place ? m->text : m->sealed, m->len);
	if (kiln_crypt(s, from, m->room, first, iv, decrypt) ||
	    kiln_crypt(s, from + first, m->room + first, m->len - first, iv, decrypt))
		return false;
	return !memcmp(m->room, m->opened, m->len) && !memcmp(iv, m->iv_out, s->iv);
}

static void kiln_compare_chains(struct kiln_examine *order, struct kiln_subject *s,
				struct kiln_message *m)
{
	static const u8 splits[] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 25, 31, 32 };
	const unsigned int unit = max(crypto_skcipher_chunksize(s->tfm), s->block);
	const bool must = kiln_must_chain(order->alg);
	u64 draw = kiln_seed_of(order) ^ 6;
	unsigned int way, i;

	if (!s->iv || unit * MOST_UNITS > KILN_LONGEST)
		return;
	m->len = unit * MOST_UNITS;
	kiln_draw_bytes(&draw, m->text, m->len);
	kiln_draw_bytes(&draw, m->iv, sizeof(m->iv));
	memset(m->sealed, 0, m->len);
	for (way = 0; way < 4; way++) {
		const bool decrypt = way & 1, in_place = way & 2;

		kiln_case.op = decrypt ? "decrypt" : "encrypt";
		kiln_case.layout = in_place ? "in place, continued with the IV that it left" :
					      "continued with the IV that it left";
		memcpy(m->iv_out, m->iv, sizeof(m->iv));
		if (kiln_crypt(s, m->text, m->opened, m->len, m->iv_out, decrypt))
			continue;
		for (i = 0; i < ARRAY_SIZE(splits); i++) {
			const bool chains = kiln_chains(s, m, unit * splits[i], decrypt, in_place);

			order->cases++;
			kiln_add(order, KILN_TRAIT_CHAINS, chains);
			if (must && !chains) {
				kiln_case.len = unit * splits[i];
				kiln_violates("chaining",
					      "leaves an IV with which the next request does not continue the message");
			}
		}
	}
}

static void kiln_compare_digest(struct kiln_subject *s, const struct kiln_message *m, int error,
				const u8 *digest)
{
	if (error)
		kiln_violates("incremental", "returns %d, but 0 for the digest at once", error);
	else if (memcmp(digest, m->sealed, s->digest))
		kiln_violates("incremental", "the digest is not that of the message at once");
}

/*
 * Exports the hash state of @s and imports it into the request of @other, which completes the hash.
 * Returns false if the driver cannot export its state.
 */
static bool kiln_move_state(struct kiln_subject *s, struct kiln_subject *other,
			    const struct kiln_message *m, unsigned int first, u8 *state, bool finup)
{
	u8 digest[128] = {};
	int error;

	if (crypto_ahash_export(s->request, state))
		return false;
	kiln_case.layout = finup ? "state moved to another request, finup" :
				   "state moved to another request, update, final";
	kiln_subject_listen(other);
	error = crypto_ahash_import(other->request, state);
	if (!finup)
		error = error ?: kiln_hash_step(other, m->text + first, m->len - first, digest,
						crypto_ahash_update);
	if (finup)
		error = error ?: kiln_hash_step(other, m->text + first, m->len - first, digest,
						crypto_ahash_finup);
	else
		error = error ?: kiln_hash_step(other, m->text, 0, digest, crypto_ahash_final);
	kiln_compare_digest(s, m, error, digest);
	return true;
}

/* Hashes a message in two parts. The first part has @first bytes. */
static void kiln_hash_divided(struct kiln_examine *order, struct kiln_subject *s,
			      struct kiln_subject *other, const struct kiln_message *m,
			      unsigned int first, u8 *state)
{
	u8 digest[128] = {};
	unsigned int way;

	kiln_case.varied = "first part";
	kiln_case.number = first;
	for (way = 0; way < 3; way++) {
		static const char *const names[] = { "update, finup", "update, update, final",
						     "update, empty update, update, finup of nothing" };
		int error;

		order->cases++;
		kiln_case.op = "init";
		kiln_case.layout = names[way];
		kiln_subject_listen(s);
		error = kiln_hash_step(s, m->text, 0, digest, crypto_ahash_init);
		error = error ?: kiln_hash_step(s, m->text, first, digest, crypto_ahash_update);
		/* If the driver cannot export its state, do not try to export it again. */
		if (!error && way < 2 && state && !kiln_move_state(s, other, m, first, state, way))
			state = NULL;
		kiln_case.layout = names[way];
		if (way == 2)
			error = error ?: kiln_hash_step(s, m->text, 0, digest, crypto_ahash_update);
		if (way)
			error = error ?: kiln_hash_step(s, m->text + first, m->len - first, digest,
							crypto_ahash_update);
		if (!way)
			error = error ?: kiln_hash_step(s, m->text + first, m->len - first, digest,
							crypto_ahash_finup);
		else
			error = error ?: kiln_hash_step(s, m->text, 0, digest,
							way == 1 ? crypto_ahash_final :
								   crypto_ahash_finup);
		kiln_compare_digest(s, m, error, digest);
	}
	kiln_case.varied = NULL;
}

static void kiln_try_parts(struct kiln_examine *order, struct kiln_subject *s,
			   struct kiln_message *m)
{
	const unsigned int longest = min(2 * s->block + 5, 300u);
	u64 draw = kiln_seed_of(order) ^ 7;
	struct kiln_subject other;
	unsigned int len, first;
	u8 *state;

	if (kiln_open_another(&other, s))
		return;
	state = kmalloc(s->state, GFP_KERNEL);
	if (state && (!s->key || !kiln_subject_setkey(&other, s->key, s->key_len)))
		for (len = 0; len <= longest; len = len ? len + longest - 1 : 1) {
			kiln_case.op = "digest";
			kiln_case.layout = "ordinary";
			kiln_case.len = len;
			kiln_message_seal(s, m, len, 0, &draw);
			if (m->error)
				continue;
			for (first = 0; first <= len; first++)
				kiln_hash_divided(order, s, &other, m, first, state);
		}
	kfree(state);
	kiln_subject_close(&other);
}

void kiln_examine_sequence(struct kiln_examine *order)
{
	struct kiln_message m = {};
	struct kiln_subject s;
	unsigned int i;

	order->error = kiln_message_alloc(&m) ?: kiln_subject_open(&s, order);
	if (order->error) {
		kiln_message_free(&m);
		return;
	}
	/*
	 * Do not include the key in the answers, because what a driver accepts does not depend on
	 * the key.
	 */
	for (i = 0; i < KILN_TRAITS; i++)
		order->answers[i] = 1;
	order->count = KILN_TRAITS;
	kiln_compare_sizes(order, &s);
	kiln_compare_messages(order, &s, &m);
	if (s.type == KILN_TYPE_AEAD)
		kiln_check_random(order, &s, &m);
	if (s.type == KILN_TYPE_SKCIPHER)
		kiln_compare_chains(order, &s, &m);
	else if (s.type == KILN_TYPE_HASH)
		kiln_try_parts(order, &s, &m);
	if (s.key) {
		kiln_try_no_key(order, &s, &m);
		kiln_try_refused_key(order, &s, &m);
		kiln_try_second_key(order, &s, &m);
		kiln_compare_keys(order, &s);
	}
	if (s.type == KILN_TYPE_AEAD)
		kiln_compare_tags(order, &s);
	kiln_subject_close(&s);
	kiln_message_free(&m);
}
