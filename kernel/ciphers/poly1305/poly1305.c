// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Poly1305: messages in pieces, the end of a message, and the list of implementations. */
#include "poly1305.h"

#include <kiln/string.h>

#include "../entry.h"
#include "../list.h"
#include "../partial.h"

static int setkey(void *ctx, const u8 *key, size_t len)
{
	struct poly1305_key *k = ctx;

	if (len != POLY1305_KEY_SIZE)
		return -EINVAL;
	poly1305_clamp(k, key);
	poly1305_powers(k);
	kiln_wipe_below();
	return 0;
}

HASH_ZERO(init, struct poly1305_state)

static bool valid(const void *state)
{
	const struct poly1305_state *s = state;

	return s->kept < POLY1305_BLOCK_SIZE;
}

static __always_inline void update(poly1305_blocks_t *blocks, const struct poly1305_key *key,
				   struct poly1305_state *s, const u8 *data, size_t len)
{
	if (s->kept) {
		if (!fill_block(s->buffer, &s->kept, POLY1305_BLOCK_SIZE, &data, &len))
			return;
		poly1305_block(key, &s->sum, s->buffer, 1);
		s->kept = 0;
	}
	if (len >= POLY1305_BLOCK_SIZE) {
		blocks(key, &s->sum, data, len / POLY1305_BLOCK_SIZE);
		data += len & ~(size_t)(POLY1305_BLOCK_SIZE - 1);
		len %= POLY1305_BLOCK_SIZE;
	}
	memcpy(s->buffer, data, len);
	s->kept = len;
}

static void final(const void *ctx, void *state, u8 *out)
{
	struct poly1305_state *s = state;

	if (s->kept)
		poly1305_part(ctx, &s->sum, s->buffer, s->kept, false);
	poly1305_emit(ctx, &s->sum, out);
	memzero_explicit(s, sizeof(*s));
}

/*
 * Hashes a whole message. The sum is wiped by assignment, since REP STOSB would be too slow for 24
 * bytes.
 */
static __always_inline void digest(poly1305_blocks_t *blocks, const struct poly1305_key *key,
				   const u8 *data, size_t len, u8 *out)
{
	const size_t whole = len & ~(size_t)(POLY1305_BLOCK_SIZE - 1);
	struct poly1305_sum sum = { { 0 } };

	if (whole)
		blocks(key, &sum, data, whole / POLY1305_BLOCK_SIZE);
	if (len > whole)
		poly1305_part(key, &sum, data + whole, len - whole, false);
	poly1305_emit(key, &sum, out);
	sum = (struct poly1305_sum){ { 0 } };
	__asm__ volatile("" : : "r"(&sum) : "memory");
}

#define TIER(name, ...)                                                               \
HASH_UPDATE(update_##name, update, poly1305_blocks_##name)                            \
HASH_DIGEST(digest_##name, digest, poly1305_blocks_##name)
VECTOR_ALL(TIER, )

#define IMPL(name, tier_name, end, prio)                                              \
	{                                                                             \
		.alg = "poly1305", .driver = "poly1305-" end, .kind = KILN_HASH,      \
		.tier = KILN_TIER_##tier_name, .priority = prio,                      \
		.constant_time = true, .key_min = POLY1305_KEY_SIZE,                  \
		.key_max = POLY1305_KEY_SIZE, .digestsize = POLY1305_DIGEST_SIZE,     \
		.blocksize = POLY1305_BLOCK_SIZE,                                     \
		.ctxsize = sizeof(struct poly1305_key),                               \
		.statesize = sizeof(struct poly1305_state), .class = KILN_MEDIUM,     \
		.setkey = setkey,                                                     \
		.hash = { .init = init, .update = update_##name, .final = final,      \
			  .digest = digest_##name, .valid = valid },                  \
	},

static const struct kiln_impl impls[] = {
	VECTOR_ALL(IMPL, "sse2")
};

KILN_IMPLS(poly1305_impls, impls);
