// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* ChaCha20: keys, counters, and the list of implementations. */
#include "chacha.h"

#include <kiln/unaligned.h>

#include "../list.h"

int chacha_setkey(void *ctx, const u8 *key, size_t len)
{
	struct chacha_key *k = ctx;
	int i;

	if (len != CHACHA_KEY_SIZE)
		return -EINVAL;
	for (i = 0; i < 8; i++)
		k->word[i] = get_le32(key + 4 * i);
	return 0;
}

#define TIER(name, ...)                                                                   \
static void crypt_##name(const void *ctx, u8 *dst, const u8 *src, size_t len, u8 *iv) \
{                                                                                     \
	chacha_crypt_##name(ctx, dst, src, len, iv);                                  \
	put_le32(get_le32(iv) + (u32)((len + CHACHA_BLOCK_SIZE - 1) / CHACHA_BLOCK_SIZE), iv); \
}
VECTOR_ALL(TIER, )

#define IMPL(name, tier_name, end, prio)                                              \
	{                                                                             \
		.alg = "chacha20", .driver = "chacha20-" end, .kind = KILN_SKCIPHER,  \
		.tier = KILN_TIER_##tier_name, .priority = prio,                      \
		.constant_time = true, .key_min = CHACHA_KEY_SIZE,                    \
		.key_max = CHACHA_KEY_SIZE, .ivsize = CHACHA_IV_SIZE, .blocksize = 1, \
		.ctxsize = sizeof(struct chacha_key), .class = KILN_MEDIUM,           \
		.setkey = chacha_setkey,                                              \
		.cipher.encrypt = crypt_##name, .cipher.decrypt = crypt_##name,       \
	},

static const struct kiln_impl impls[] = {
	VECTOR_ALL(IMPL, "ssse3")
};

KILN_IMPLS(chacha_impls, impls);
