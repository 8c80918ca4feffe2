/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The template of GCM in general-purpose registers. It uses the AES-CTR function of the same tier.
 */
#include <kiln/unaligned.h>

#include "../modes/modes.h"
#include "gcm.h"

/* Hashes all of @data, padded with zeros to whole blocks. */
static void hash(const struct gcm_key *key, u64 acc[2], const u8 *data, size_t len)
{
	u8 last[AES_BLOCK_SIZE] = { 0 };
	const size_t whole = len / AES_BLOCK_SIZE, rest = len % AES_BLOCK_SIZE;
	size_t i;

	polyval_blocks_generic(&key->h, acc, data, whole, true);
	if (rest) {
		for (i = 0; i < rest; i++)
			last[i] = data[whole * AES_BLOCK_SIZE + i];
		polyval_blocks_generic(&key->h, acc, last, 1, true);
	}
}

/* Sets the counter block. The 32-bit counter does not wrap in a message of valid length. */
static void counter(const struct gcm_state *s, u8 ctr[AES_BLOCK_SIZE])
{
	const u32 number = 2 + s->len / AES_BLOCK_SIZE;

	put_le64(get_le64(s->j0), ctr);
	put_le32(get_le32(s->j0 + 8), ctr + 8);
	put_le32(__builtin_bswap32(number), ctr + 12);
}

#define GCM_SCALAR(name)                                                              \
GCM_SCALAR_TEXT(name, encrypt, , hash(key, s->acc, dst, len))                         \
GCM_SCALAR_TEXT(name, decrypt, hash(key, s->acc, src, len), )
#define GCM_SCALAR_TEXT(name, direction, before, after)                               \
void gcm_##direction##_##name(const struct gcm_key *key, struct gcm_state *s, u8 *dst, \
			      const u8 *src, size_t len)                              \
{                                                                                     \
	u8 ctr[AES_BLOCK_SIZE];                                                       \
										      \
	counter(s, ctr);                                                              \
	s->len += len;                                                                \
	before;                                                                       \
	aes_ctr_##name(&key->aes, dst, src, len, ctr);                                \
	after;                                                                        \
}
