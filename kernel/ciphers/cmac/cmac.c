// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* cmac(aes): keys, messages in pieces, and the list of implementations. */
#include "cmac.h"

#include <kiln/string.h>
#include <kiln/unaligned.h>

#include "../aes/scalar.h"
#include "../entry.h"
#include "../list.h"
#include "../modes/modes.h"
#include "../partial.h"

/* dst = src * x; both are in memory order, most significant byte first (SP 800-38B, 6.1). */
static void put_double(u8 *dst, const u8 *src)
{
	const u64 hi = __builtin_bswap64(get_le64(src));
	const u64 lo = __builtin_bswap64(get_le64(src + 8));

	put_le64(__builtin_bswap64(hi << 1 | lo >> 63), dst);
	put_le64(__builtin_bswap64(lo << 1 ^ (-(hi >> 63) & 0x87)), dst + 8);
}

static int setkey(void *ctx, const u8 *raw, size_t len)
{
	struct cmac_key *key = ctx;
	u8 l[AES_BLOCK_SIZE] __aligned(16) = { 0 };

	if (aes_expandkey(&key->aes, raw, len))
		return -EINVAL;
	aes_encrypt_fixed_time(&key->aes, l, l, 1);
	put_double(key->sub[0], l);
	put_double(key->sub[1], key->sub[0]);
	memzero_explicit(l, sizeof(l));
	return 0;
}

HASH_ZERO(init, struct cmac_state)

static bool valid(const void *state)
{
	const struct cmac_state *s = state;

	return s->kept <= AES_BLOCK_SIZE;
}

static __always_inline void update(aes_mac_t *mac, const struct cmac_key *key,
				   struct cmac_state *s, const u8 *data, size_t len)
{
	size_t n;

	if (s->kept) {
		fill_block(s->buffer, &s->kept, AES_BLOCK_SIZE, &data, &len);
		if (!len)
			return;
		mac(&key->aes, s->acc, s->buffer, 1);
		s->kept = 0;
	}
	if (!len)
		return;
	n = (len - 1) / AES_BLOCK_SIZE;
	mac(&key->aes, s->acc, data, n);
	s->kept = len - n * AES_BLOCK_SIZE;
	memcpy(s->buffer, data + n * AES_BLOCK_SIZE, s->kept);
}

static __always_inline void final(aes_mac_t *mac, const struct cmac_key *key,
				  struct cmac_state *s, u8 *out)
{
	const bool full = s->kept == AES_BLOCK_SIZE;

	if (!full) {
		memset(s->buffer + s->kept, 0, AES_BLOCK_SIZE - s->kept);
		s->buffer[s->kept] = 0x80;
	}
	aes_xor_block(s->buffer, s->buffer, key->sub[full ? 0 : 1]);
	mac(&key->aes, s->acc, s->buffer, 1);
	memcpy(out, s->acc, AES_BLOCK_SIZE);
	memzero_explicit(s, sizeof(*s));
}

#define PIECES(name, ...)                                                             \
HASH_UPDATE(update_##name, update, aes_mac_##name)                                    \
HASH_FINAL(final_##name, final, aes_mac_##name)
AES_ALL(PIECES)

#define SCALAR(name, ...)                                                             \
static void cmac_digest_##name(const void *ctx, const u8 *data, size_t len, u8 *out)  \
{                                                                                     \
	struct cmac_state s = { .kept = 0 };                                          \
										      \
	update(aes_mac_##name, ctx, &s, data, len);                                   \
	final(aes_mac_##name, ctx, &s, out);                                          \
}
AES_SCALAR(SCALAR)

#define IMPL(func, tier_name, end, prio, ct, ...)                                     \
	{                                                                             \
		.alg = "cmac(aes)", .driver = "cmac-aes-" end, .kind = KILN_HASH,     \
		.tier = KILN_TIER_##tier_name, .priority = prio, .constant_time = ct, \
		.key_min = 16, .key_max = 32, .key_step = 8,                          \
		.blocksize = AES_BLOCK_SIZE, .digestsize = AES_BLOCK_SIZE,            \
		.ctxsize = sizeof(struct cmac_key),                                   \
		.statesize = sizeof(struct cmac_state), .class = KILN_SLOW,           \
		.setkey = setkey,                                                     \
		.hash = { .init = init, .update = update_##func,                      \
			  .final = final_##func, .digest = cmac_digest_##func,        \
			  .valid = valid, __VA_ARGS__ },                              \
	},
#define ALONE(...) IMPL(__VA_ARGS__, )
#define MANY(func, ...)                                                               \
	IMPL(func, __VA_ARGS__, .finish_many = cmac_finish_many_##func,               \
	     .lanes = AES_LANES_##func)

static const struct kiln_impl impls[] = {
	AES_SCALAR(ALONE)
	AES_SIMD(MANY)
};

KILN_IMPLS(cmac_impls, impls);
