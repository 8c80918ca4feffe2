// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* NHPoly1305: keys, messages in pieces, and the list of implementations. */
#include "nhpoly1305.h"

#include <kiln/string.h>
#include <kiln/unaligned.h>

#include "../entry.h"
#include "../list.h"
#include "../partial.h"

/* Number of NH sums collected before Poly1305 hashes them. */
#define SUMS 16

static int setkey(void *ctx, const u8 *key, size_t len)
{
	struct nhpoly1305_key *k = ctx;
	u8 poly[POLY1305_KEY_SIZE] = { 0 };
	size_t i;

	if (len != NHPOLY1305_KEY_SIZE)
		return -EINVAL;
	memcpy(poly, key, POLY1305_BLOCK_SIZE);
	poly1305_clamp(&k->poly, poly);
	poly1305_powers(&k->poly);
	memzero_explicit(poly, sizeof(poly));
	key += POLY1305_BLOCK_SIZE;
	for (i = 0; i < ARRAY_SIZE(k->nh); i += 4, key += NH_UNIT) {
		k->nh[i] = get_le32(key);
		k->nh[i + 1] = get_le32(key + 8);
		k->nh[i + 2] = get_le32(key + 4);
		k->nh[i + 3] = get_le32(key + 12);
	}
	kiln_wipe_below();
	return 0;
}

HASH_ZERO(init, struct nhpoly1305_state)

/* Hashes @units whole units with NH, and each complete NH sum with Poly1305. */
static __always_inline void hash_units(nh_t *nh, poly1305_blocks_t *blocks,
				       const struct nhpoly1305_key *key,
				       struct nhpoly1305_state *s, const u8 *src, size_t units)
{
	struct nh_sum sums[SUMS];
	size_t most = 0;

	while (units) {
		const size_t left = (NH_MESSAGE - s->begun) / NH_UNIT;
		size_t n = units < left ? units : left, i;

		if (s->begun || n < left) {
			/*
			 * These units are only part of an NH message of 1024 bytes, so add their
			 * sum to the sum of that message.
			 */
			nh(key->nh + s->begun / 4, src, n, sums);
			for (i = 0; i < NH_PASSES; i++)
				s->nh.pass[i] += sums[0].pass[i];
			most = most ? most : 1;
			s->begun += NH_UNIT * n;
			if (s->begun == NH_MESSAGE) {
				blocks(&key->poly, &s->sum, (const u8 *)&s->nh,
				       sizeof(s->nh) / POLY1305_BLOCK_SIZE);
				s->nh = (struct nh_sum){ { 0 } };
				s->begun = 0;
			}
		} else {
			const size_t whole = NH_MESSAGE / NH_UNIT;
			size_t messages = units / whole;

			messages = messages < SUMS ? messages : SUMS;
			most = most < messages ? messages : most;
			n = messages * whole;
			nh(key->nh, src, n, sums);
			blocks(&key->poly, &s->sum, (const u8 *)sums,
			       messages * sizeof(*sums) / POLY1305_BLOCK_SIZE);
		}
		src += NH_UNIT * n;
		units -= n;
	}
	wipe_words(sums, most * sizeof(*sums));
}

static bool valid(const void *state)
{
	const struct nhpoly1305_state *s = state;

	return s->kept < NH_UNIT && s->begun < NH_MESSAGE && s->begun % NH_UNIT == 0;
}

static __always_inline void update(nh_t *nh, poly1305_blocks_t *blocks,
				   const struct nhpoly1305_key *key,
				   struct nhpoly1305_state *s, const u8 *data, size_t len)
{
	if (s->kept) {
		if (!fill_block(s->buffer, &s->kept, NH_UNIT, &data, &len))
			return;
		hash_units(nh, blocks, key, s, s->buffer, 1);
		s->kept = 0;
	}
	if (len >= NH_UNIT) {
		hash_units(nh, blocks, key, s, data, len / NH_UNIT);
		data += len & ~(size_t)(NH_UNIT - 1);
		len %= NH_UNIT;
	}
	memcpy(s->buffer, data, len);
	s->kept = len;
}

static __always_inline void final(nh_t *nh, poly1305_blocks_t *blocks,
				  const struct nhpoly1305_key *key,
				  struct nhpoly1305_state *s, u8 *out)
{
	if (s->kept) {
		memset(s->buffer + s->kept, 0, NH_UNIT - s->kept);
		hash_units(nh, blocks, key, s, s->buffer, 1);
	}
	if (s->begun)
		blocks(&key->poly, &s->sum, (const u8 *)&s->nh,
		       sizeof(s->nh) / POLY1305_BLOCK_SIZE);
	/* NHPoly1305 uses no nonce, so the key's s is zero. */
	poly1305_emit(&key->poly, &s->sum, out);
	wipe_words(s, sizeof(*s));
}

#define TIER(name, ...)                                                               \
HASH_UPDATE(update_##name, update, nh_##name, poly1305_blocks_##name)                 \
HASH_FINAL(final_##name, final, nh_##name, poly1305_blocks_##name)                    \
static void digest_##name(const void *ctx, const u8 *data, size_t len, u8 *out)      \
{                                                                                     \
	struct nhpoly1305_state s;                                                    \
									      \
	s.sum = (struct poly1305_sum){ { 0 } };                                       \
	s.nh = (struct nh_sum){ { 0 } };                                              \
	s.begun = s.kept = 0;                                                         \
	update_##name(ctx, &s, data, len);                                            \
	final_##name(ctx, &s, out);                                                   \
}
VECTOR_ALL(TIER, )

#define IMPL(name, tier_name, end, prio)                                              \
	{                                                                             \
		.alg = "nhpoly1305", .driver = "nhpoly1305-" end, .kind = KILN_HASH,  \
		.tier = KILN_TIER_##tier_name, .priority = prio,                      \
		.constant_time = true, .key_min = NHPOLY1305_KEY_SIZE,                \
		.key_max = NHPOLY1305_KEY_SIZE, .digestsize = POLY1305_DIGEST_SIZE,   \
		.blocksize = NH_UNIT, .ctxsize = sizeof(struct nhpoly1305_key),       \
		.statesize = sizeof(struct nhpoly1305_state), .class = KILN_MEDIUM,   \
		.setkey = setkey,                                                     \
		.hash = { .init = init, .update = update_##name,                      \
			  .final = final_##name, .digest = digest_##name,             \
			  .valid = valid },                                           \
	},

static const struct kiln_impl impls[] = {
	VECTOR_ALL(IMPL, "sse2")
};

KILN_IMPLS(nhpoly1305_impls, impls);
