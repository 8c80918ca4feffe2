// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Memory: a driver must access only the memory that a request names. The oracle guards the key, the
 * IV, the digest, each list entry, and everything that the tree allocates during a request
 * (transforms, request contexts, temporary buffers). In the first run, each of these ends at an
 * unmapped page. In the second run, each begins right after one. An access to any other memory
 * crashes the process at the offending instruction, in C or in assembly. Freed memory is unmapped.
 *
 * The source and the rest of each page are compared with their previous contents. The answer must
 * be the same as for a request in ordinary memory.
 */
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <crypto/hash.h>

#include "kiln/oracle.h"

#define FENCE_PAGES 3
#define FENCE (FENCE_PAGES * PAGE_SIZE)
#define FENCES KILN_PIECES_MOST
#define CANARY 0xc5

enum kiln_place { KILN_AT_END, KILN_AT_START, KILN_PLACES };

static const char *const kiln_places[] = { "each piece ends at an unmapped page",
					   "each piece begins behind an unmapped page" };

/* Where the parts of a message are placed in memory. */
struct kiln_layout {
	const char *name[KILN_PLACES];
	bool in_place;
	bool two_lists;		/* in place, but source and destination are separate lists */
	bool longer;		/* the lists have more entries than the request needs */
	u8 src[4], dst[4];	/* lengths of the first pieces; 0 means all remaining bytes */
};

#define NAMES(text) \
	{ text ", each piece ends at an unmapped page", text ", each piece begins behind an unmapped page" }

static const struct kiln_layout kiln_layouts[] = {
	{ NAMES("out of place") },
	{ NAMES("in place"), .in_place = true },
	{ NAMES("out of place, in pieces"), .src = { 16, 1, 33 }, .dst = { 5, 48, 15 } },
	{ NAMES("in place, in pieces"), .in_place = true, .src = { 7, 16, 31 } },
	{ NAMES("in place, by two lists"), .in_place = true, .two_lists = true, .src = { 33, 7, 48 } },
	{ NAMES("out of place, lists longer than the request"), .longer = true,
	  .src = { 32 }, .dst = { 17 } },
	{ NAMES("in place, lists longer than the request"), .in_place = true, .longer = true,
	  .src = { 29 } },
};

/*
 * The number of single-piece layouts, which come first. The other layouts do not affect where a
 * batch of blocks ends.
 */
#define PLAIN_LAYOUTS 2

/* A scatterlist whose pieces are each in their own guarded memory. */
struct kiln_list_of {
	struct scatterlist sg[FENCES];
	struct {
		u8 *at;
		unsigned int len;
	} piece[FENCES];
	unsigned int count;
	unsigned int total;	/* offset of the first byte outside the request */
};

static u8 *kiln_fences[2][FENCES];

static void kiln_lay_piece(struct kiln_list_of *l, u8 **fences, unsigned int len,
			   enum kiln_place place)
{
	u8 *fence = fences[l->count];
	u8 *at = place == KILN_AT_END ? fence + FENCE - len : fence;

	memset(fence, CANARY, FENCE);
	sg_set_buf(&l->sg[l->count], at, len);
	l->piece[l->count].at = at;
	l->piece[l->count++].len = len;
}

/* Lays out @total bytes in pieces, and copies the first @given bytes from @from. */
static void kiln_lay(struct kiln_list_of *l, u8 **fences, const u8 *from, unsigned int given,
		     unsigned int total, const u8 *cuts, const struct kiln_layout *layout,
		     enum kiln_place place)
{
	unsigned int left = total, i;

	sg_init_table(l->sg, FENCES);
	l->count = 0;
	l->total = total;
	for (i = 0; i < 4 && cuts[i] && left > cuts[i]; i++) {
		kiln_lay_piece(l, fences, cuts[i], place);
		left -= cuts[i];
	}
	/* Split the remaining bytes into pieces that fit in guarded memory. */
	while (left > FENCE / 2) {
		kiln_lay_piece(l, fences, FENCE / 2, place);
		left -= FENCE / 2;
	}
	if (left || !l->count)
		kiln_lay_piece(l, fences, left + (layout->longer ? 24 : 0), place);
	if (layout->longer) {
		kiln_lay_piece(l, fences, 40, place);
		kiln_lay_piece(l, fences, 16, place);
	}
	sg_mark_end(&l->sg[l->count - 1]);
	for (i = 0; given; i++) {
		const unsigned int n = min(given, l->piece[i].len);

		memcpy(l->piece[i].at, from, n);
		from += n;
		given -= n;
	}
}

static void kiln_copy_list(struct kiln_list_of *to, const struct kiln_list_of *from)
{
	unsigned int i;

	sg_init_table(to->sg, FENCES);
	for (i = 0; i < from->count; i++)
		sg_set_buf(&to->sg[i], from->piece[i].at, from->piece[i].len);
	sg_mark_end(&to->sg[i - 1]);
}

/* Copies the bytes of a list that belong to the request. */
static void kiln_gather_bytes(const struct kiln_list_of *l, u8 *to)
{
	unsigned int left = l->total, i;

	for (i = 0; left; i++) {
		const unsigned int n = min(left, l->piece[i].len);

		memcpy(to, l->piece[i].at, n);
		to += n;
		left -= n;
	}
}

/* Checks that all bytes outside the request still have the value CANARY. */
static void kiln_check_canaries(const struct kiln_list_of *l, u8 *const *fences, const char *list)
{
	unsigned int left = l->total, i;

	for (i = 0; i < l->count; i++) {
		const unsigned int n = min(left, l->piece[i].len);
		const u8 *at = l->piece[i].at;
		const u8 *before = memchr_inv(fences[i], CANARY, at - fences[i]);
		const u8 *behind = memchr_inv(at + n, CANARY, fences[i] + FENCE - at - n);

		left -= n;
		if (before)
			kiln_violates("write-outside",
				      "writes %ld bytes before entry %u of the %s",
				      (long)(at - before), i, list);
		if (behind)
			kiln_violates("write-outside",
				      "writes %ld bytes behind the last byte of the request in entry %u of the %s",
				      (long)(behind - at - n) + 1, i, list);
	}
}

static const u8 *kiln_differs(const u8 *a, const u8 *b, unsigned int n)
{
	for (; n; n--, a++, b++)
		if (*a != *b)
			return a;
	return NULL;
}

static void kiln_one_layout(struct kiln_subject *s, struct kiln_message *m,
			    const struct kiln_layout *layout, enum kiln_place place, bool decrypt)
{
	static struct kiln_list_of src, dst;
	const unsigned int sealed = m->aad + m->len + s->tag, open = m->aad + m->len;
	const unsigned int in = decrypt ? sealed : open, out = decrypt ? open : sealed;
	const u8 *from = decrypt ? m->sealed : m->text, *expected = decrypt ? m->opened : m->sealed;
	/*
	 * ESSIV overwrites the IV at the end of the associated data with the encrypted IV, so do
	 * not compare that part of the result.
	 */
	const unsigned int aad = m->aad >= s->iv ? m->aad - s->iv : m->aad;
	const int right = decrypt ? m->open_error : 0;
	const u8 *wrong;
	unsigned int i;
	u8 *iv = s->iv ? kiln_fence(s->iv, place == KILN_AT_START) : NULL;
	struct kiln_call call = { .len = in - m->aad, .aad = m->aad, .decrypt = decrypt };
	int error;

	kiln_case.op = decrypt ? "decrypt" : "encrypt";
	kiln_case.layout = layout->name[place];
	if (s->iv && !iv)
		return;
	memcpy(iv, m->iv, s->iv);
	kiln_lay(&src, kiln_fences[0], from, in, layout->in_place ? max(in, out) : in, layout->src,
		 layout, place);
	if (!layout->in_place)
		kiln_lay(&dst, kiln_fences[1], NULL, 0, out, layout->dst, layout, place);
	if (layout->two_lists)
		kiln_copy_list(&dst, &src);
	call.src = src.sg;
	call.dst = layout->in_place && !layout->two_lists ? src.sg : dst.sg;
	call.iv = iv;
	error = kiln_ask(s, &call);
	if (error != right)
		kiln_violates("answer", "returns %d, but %d in ordinary memory", error, right);
	if (error)
		goto check;
	kiln_gather_bytes(layout->in_place ? &src : &dst, m->room);
	/*
	 * A driver may copy the associated data to the destination or leave the destination
	 * unchanged.
	 */
	if (!layout->in_place && aad) {
		if (memchr_inv(m->room, CANARY, aad) && memcmp(m->room, from, aad))
			kiln_violates("write-outside",
				      "writes something else than the associated data where they belong");
	} else if (aad && memcmp(m->room, from, aad)) {
		kiln_violates("write-outside", "changes the associated data");
	}
	for (i = m->aad; decrypt && i < out; i++)
		if (!m->written[i])
			m->room[i] = expected[i];
	wrong = kiln_differs(m->room + m->aad, expected + m->aad, out - m->aad);
	if (wrong)
		kiln_violates("answer", "byte %ld of %u is wrong; in ordinary memory it is right",
			      (long)(wrong - m->room - m->aad), out - m->aad);
check:
	kiln_check_canaries(&src, kiln_fences[0], layout->in_place ? "list" : "source");
	if (!layout->in_place) {
		kiln_check_canaries(&dst, kiln_fences[1], "destination");
		kiln_gather_bytes(&src, m->room);
		wrong = kiln_differs(m->room, from, in);
		if (wrong)
			kiln_violates("write-outside", "changes byte %ld of the source",
				      (long)(wrong - m->room));
	}
	kiln_unfence(iv);
}

/*
 * Returns whether decryption has written a wrong byte. Every byte written must match the original
 * text, with one exception: in the IV at the start of the text, which an IV generator treats as
 * associated data, bytes may also be copied unchanged from the ciphertext.
 */
static bool kiln_writes_wrong(const struct kiln_subject *s, const struct kiln_message *m)
{
	unsigned int i;

	for (i = m->aad; i < m->aad + m->len; i++)
		if (m->written[i] && m->opened[i] != m->text[i] &&
		    !(i < m->aad + s->iv && m->opened[i] == m->sealed[i]))
			return true;
	return false;
}

/* Encrypts and decrypts a message in each of the first @layouts layouts. */
static void kiln_cipher_memory(struct kiln_examine *order, struct kiln_subject *s,
			       struct kiln_message *m, unsigned int len, unsigned int aad,
			       unsigned int layouts, u64 *draw)
{
	unsigned int i, place;

	kiln_case.op = "encrypt";
	kiln_case.layout = "ordinary";
	kiln_case.len = len;
	kiln_case.aad = aad;
	order->cases++;
	kiln_message_seal(s, m, len, aad, draw);
	if (m->error) {
		order->refused++;
		return;
	}
	kiln_case.op = "decrypt";
	kiln_message_open(s, m);
	if (!m->open_error && kiln_writes_wrong(s, m))
		kiln_violates("answer", "does not decrypt what it encrypted");
	for (i = 0; i < layouts; i++)
		for (place = 0; place < KILN_PLACES; place++) {
			order->cases += 2;
			kiln_one_layout(s, m, &kiln_layouts[i], place, false);
			kiln_one_layout(s, m, &kiln_layouts[i], place, true);
		}
}

/*
 * Hashes in one call, or in several updates. After each update, the state is exported to guarded
 * memory and imported again.
 */
static int kiln_hash_layout(struct kiln_subject *s, struct kiln_message *m,
			    const struct kiln_layout *layout, enum kiln_place place, u8 *result,
			    bool in_updates)
{
	static struct kiln_list_of src;
	struct kiln_call call = { .src = src.sg, .len = m->len, .result = result };
	unsigned int i, left = m->len;
	u8 *state;
	int error;

	kiln_lay(&src, kiln_fences[0], m->text, m->len, m->len, layout->src, layout, place);
	if (!in_updates)
		return kiln_ask(s, &call);
	state = kiln_fence(s->state, place == KILN_AT_START);
	if (!state)
		return -ENOMEM;
	/* Hash the whole message first. This also sets the callback for the steps below. */
	error = kiln_ask(s, &call);
	for (i = 0; !error && i < src.count; i++) {
		const unsigned int n = min(left, src.piece[i].len);
		struct scatterlist sg;

		sg_init_one(&sg, src.piece[i].at, n);
		reinit_completion(&s->done);
		s->completions = 0;
		if (!i)
			error = kiln_await(s, crypto_ahash_init(s->request));
		if (error)
			break;
		left -= n;
		ahash_request_set_crypt(s->request, &sg, result, n);
		reinit_completion(&s->done);
		s->completions = 0;
		error = kiln_await(s, left ? crypto_ahash_update(s->request) :
					     crypto_ahash_finup(s->request));
		if (error || !left)
			break;
		/* Ignore a failing export: some hashes cannot be continued by another request. */
		if (!crypto_ahash_export(s->request, state))
			error = crypto_ahash_import(s->request, state);
	}
	kiln_unfence(state);
	return error;
}

/* Hashes a message in each of the first @layouts layouts, except those that are in place. */
static void kiln_hash_memory(struct kiln_examine *order, struct kiln_subject *s,
			     struct kiln_message *m, unsigned int len, unsigned int layouts,
			     u64 *draw)
{
	unsigned int i, place, in_updates;

	kiln_case.op = "digest";
	kiln_case.layout = "ordinary";
	kiln_case.len = len;
	order->cases++;
	kiln_message_seal(s, m, len, 0, draw);
	if (m->error) {
		order->refused++;
		return;
	}
	for (i = 0; i < layouts; i++)
		for (place = 0; place < KILN_PLACES; place++)
			for (in_updates = 0; in_updates < 2; in_updates++) {
				u8 *result;
				int error;

				if (kiln_layouts[i].in_place || (in_updates && !len))
					continue;
				result = kiln_fence(s->digest, place == KILN_AT_START);
				if (!result)
					return;
				order->cases++;
				kiln_case.op = in_updates ? "update, finup" : "digest";
				kiln_case.layout = kiln_layouts[i].name[place];
				error = kiln_hash_layout(s, m, &kiln_layouts[i], place, result,
							 in_updates);
				if (error)
					kiln_violates("answer", "returns %d, but 0 in ordinary memory",
						      error);
				else if (memcmp(result, m->sealed, s->digest))
					kiln_violates("answer",
						      "the digest is wrong; in ordinary memory it is right");
				kiln_unfence(result);
			}
}

/*
 * Sets the key again, from memory between unmapped pages. Also tries a key that is one byte too
 * long.
 */
static void kiln_key_memory(struct kiln_subject *s)
{
	unsigned int place, more;

	kiln_case.op = "setkey";
	for (place = 0; place < KILN_PLACES; place++)
		for (more = 2; more--;) {
			const unsigned int len = s->key_len + more;
			u8 *key = kiln_fence(len, place == KILN_AT_START);

			if (!key)
				return;
			memset(key, 0, len);
			memcpy(key, s->key, s->key_len);
			kiln_case.len = len;
			kiln_case.layout = kiln_places[place];
			kiln_subject_setkey(s, key, len);
			kiln_unfence(key);
		}
}

void kiln_examine_memory(struct kiln_examine *order)
{
	static const u16 lengths[] = { 0, 1, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 80, 95, 96,
				       111, 112, 127, 128, 129, 144, 160, 192, 224, 239, 240, 255, 256,
				       257, 272, 288, 304, 320, 368, 384, 400, 496, 511, 512, 513, 528,
				       768, 1024, 1040, 2047, 2048, 4080, 4095, 4096, 4097, 6144 };
	/*
	 * Lengths of associated data. Some exceed a page, others are near the end of a batch of
	 * blocks.
	 */
	static const u16 aads[] = { 64, 100, 257, 4097, 63, 65, 127, 128, 129, 255, 256, 511, 512, 513,
				    1023, 1024, 4080, 4095, 4096 };
	const unsigned int many = order->thorough ? ARRAY_SIZE(aads) : 4;
	const unsigned int all = ARRAY_SIZE(kiln_layouts);
	struct kiln_subject s;
	struct kiln_message m = {};
	u64 draw = kiln_seed_of(order);
	unsigned int i, j;

	/*
	 * Make the requests in ordinary memory first, because the first call may permanently
	 * allocate memory that does not belong to the driver.
	 */
	order->error = kiln_subject_open(&s, order);
	if (order->error)
		return;
	kiln_subject_close(&s);
	order->error = kiln_message_alloc(&m);
	kiln_guard(true);
	for (i = 0; i < 2 * FENCES && !order->error; i++) {
		u8 **fence = &kiln_fences[i / FENCES][i % FENCES];

		if (!*fence)
			*fence = kiln_fence(FENCE, true);
		order->error = *fence ? 0 : -ENOMEM;
	}
	if (!order->error)
		order->error = kiln_subject_open(&s, order);
	if (!order->error) {
		if (kiln_subject_keyed(&s) || s.key)
			kiln_key_memory(&s);
		for (i = 0; i < ARRAY_SIZE(lengths); i++) {
			if (s.type == KILN_TYPE_HASH) {
				kiln_hash_memory(order, &s, &m, lengths[i], all, &draw);
				continue;
			}
			kiln_cipher_memory(order, &s, &m, lengths[i], s.aad, all, &draw);
		}
		/* Cover every length at which a batch of blocks may end. */
		for (j = 0; order->thorough && j < 1100; j++) {
			if (s.type == KILN_TYPE_HASH)
				kiln_hash_memory(order, &s, &m, j, PLAIN_LAYOUTS, &draw);
			else
				kiln_cipher_memory(order, &s, &m, j, s.aad, PLAIN_LAYOUTS, &draw);
		}
		/* Cover consecutive lengths of associated data. */
		for (j = 0; s.type == KILN_TYPE_AEAD && j < (order->thorough ? 80 : 34); j++)
			kiln_cipher_memory(order, &s, &m, 64, j, all, &draw);
		for (j = 0; s.type == KILN_TYPE_AEAD && j < many; j++)
			kiln_cipher_memory(order, &s, &m, 113, aads[j], all, &draw);
		kiln_subject_close(&s);
	}
	kiln_guard(false);
	kiln_message_free(&m);
}
