// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* ccm(aes): messages in pieces, and the list of implementations. */
#include "ccm.h"

#include <kiln/string.h>

#include "../entry.h"
#include "../list.h"
#include "../modes/modes.h"
#include "../partial.h"
#include "ccm_blocks.h"

/*
 * Associated data of up to this many bytes is copied to a buffer that begins with the first block,
 * so that both are hashed together.
 */
#define SHORT_AAD (6 * AES_BLOCK_SIZE - 2)

struct ccm_state {
	u8 acc[AES_BLOCK_SIZE];		/* CBC-MAC of the data so far */
	u8 ctr[AES_BLOCK_SIZE];		/* counter of the next block */
	u8 a0[AES_BLOCK_SIZE];		/* counter block whose encryption masks the tag */
	u8 buffer[AES_BLOCK_SIZE];	/* the last @kept bytes of associated data */
	u64 kept;
};

struct tier {
	aes_mac_t *mac;
	ccm_text_t *encrypt, *decrypt;
	kiln_crypt_t *ecb;
};

static __always_inline void begin(const struct tier *t, const struct aes_key *key,
				  struct ccm_state *s, const u8 *iv, size_t aadlen,
				  size_t len, size_t tagsize)
{
	u8 b0[AES_BLOCK_SIZE];

	memset(s, 0, sizeof(*s));
	counters(s->a0, s->ctr, iv);
	first_block(b0, iv, aadlen, len, tagsize);
	t->mac(key, s->acc, b0, 1);
	s->kept = aad_length(s->buffer, aadlen);
}

static __always_inline void add_aad(const struct tier *t, const struct aes_key *key,
				    struct ccm_state *s, const u8 *aad, size_t len)
{
	if (s->kept) {
		if (!fill_block(s->buffer, &s->kept, AES_BLOCK_SIZE, &aad, &len))
			return;
		t->mac(key, s->acc, s->buffer, 1);
	}
	t->mac(key, s->acc, aad, len / AES_BLOCK_SIZE);
	s->kept = len % AES_BLOCK_SIZE;
	memcpy(s->buffer, aad + (len - s->kept), s->kept);
}

/* Pads the last block of associated data with zeros and adds it to the MAC. */
static __always_inline void end_aad(const struct tier *t, const struct aes_key *key,
				    struct ccm_state *s)
{
	if (!s->kept)
		return;
	memset(s->buffer + s->kept, 0, AES_BLOCK_SIZE - s->kept);
	t->mac(key, s->acc, s->buffer, 1);
	s->kept = 0;
}

static __always_inline void put_tag(const struct tier *t, const struct aes_key *key,
				    const u8 *acc, const u8 *a0, u8 *tag, size_t tagsize)
{
	u8 mask[AES_BLOCK_SIZE] __aligned(16);

	t->ecb(key, mask, a0, sizeof(mask), NULL);
	put_le64(get_le64(mask) ^ get_le64(acc), mask);
	put_le64(get_le64(mask + 8) ^ get_le64(acc + 8), mask + 8);
	memcpy(tag, mask, tagsize);
	memzero_explicit(mask, sizeof(mask));
}

/* Processes a whole message and writes the tag to @tag. */
static __always_inline void whole(const struct tier *t, const bool decrypting,
				  const struct aes_key *key, u8 *dst, const u8 *src,
				  size_t len, const u8 *aad, size_t aadlen, const u8 *iv,
				  u8 *tag, size_t tagsize)
{
	struct ccm_state s;

	if (aadlen <= SHORT_AAD) {
		u8 head[AES_BLOCK_SIZE + SHORT_AAD + 2] __aligned(16);
		size_t n;

		put_block(s.acc, 0, 0);
		counters(s.a0, s.ctr, iv);
		n = first_blocks(head, iv, aad, aadlen, len, tagsize);
		t->mac(key, s.acc, head, n);
	} else {
		begin(t, key, &s, iv, aadlen, len, tagsize);
		add_aad(t, key, &s, aad, aadlen);
		end_aad(t, key, &s);
	}
	(decrypting ? t->decrypt : t->encrypt)(key, s.acc, s.ctr, dst, src, len);
	put_tag(t, key, s.acc, s.a0, tag, tagsize);
	memzero_explicit(s.acc, sizeof(s.acc));
}

static __always_inline int open(const struct tier *t, const struct aes_key *key, u8 *dst,
				const u8 *src, size_t len, const u8 *aad, size_t aadlen,
				const u8 *iv, const u8 *tag, size_t tagsize)
{
	u8 have[AES_BLOCK_SIZE];

	whole(t, true, key, dst, src, len, aad, aadlen, iv, have, tagsize);
	return verdict(have, tag, tagsize, dst, len);
}

static __always_inline void crypt(const struct tier *t, const bool decrypting,
				  const struct aes_key *key, struct ccm_state *s, u8 *dst,
				  const u8 *src, size_t len)
{
	end_aad(t, key, s);
	(decrypting ? t->decrypt : t->encrypt)(key, s->acc, s->ctr, dst, src, len);
}

static __always_inline void end(const struct tier *t, const struct aes_key *key,
				struct ccm_state *s, u8 *tag, size_t tagsize)
{
	end_aad(t, key, s);
	put_tag(t, key, s->acc, s->a0, tag, tagsize);
	memzero_explicit(s, sizeof(*s));
}

/*
 * In general-purpose registers, a piece of text takes two passes. Encryption updates the MAC first
 * and then runs CTR; decryption runs CTR first.
 */
static __always_inline void mac_text(aes_mac_t *mac, const struct aes_key *key, u8 *acc,
				     const u8 *text, size_t len)
{
	const size_t rest = len % AES_BLOCK_SIZE;
	u8 last[AES_BLOCK_SIZE] __aligned(16) = { 0 };

	mac(key, acc, text, len / AES_BLOCK_SIZE);
	if (rest) {
		memcpy(last, text + (len - rest), rest);
		mac(key, acc, last, 1);
		memzero_explicit(last, sizeof(last));
	}
}

#define SCALAR_TEXT(name, ...)                                                        \
static void ccm_encrypt_##name(const struct aes_key *key, u8 acc[AES_BLOCK_SIZE],     \
			       u8 ctr[AES_BLOCK_SIZE], u8 *dst, const u8 *src, size_t len) \
{                                                                                     \
	mac_text(aes_mac_##name, key, acc, src, len);                                 \
	aes_ctr_##name(key, dst, src, len, ctr);                                      \
}                                                                                     \
static void ccm_decrypt_##name(const struct aes_key *key, u8 acc[AES_BLOCK_SIZE],     \
			       u8 ctr[AES_BLOCK_SIZE], u8 *dst, const u8 *src, size_t len) \
{                                                                                     \
	aes_ctr_##name(key, dst, src, len, ctr);                                      \
	mac_text(aes_mac_##name, key, acc, dst, len);                                 \
}
AES_SCALAR(SCALAR_TEXT)

#define TIER(name, ...)                                                               \
static const struct tier name = {                                                     \
	aes_mac_##name, ccm_encrypt_##name, ccm_decrypt_##name, aes_ecb_encrypt_##name, \
};                                                                                    \
AEAD_SEAL(seal_##name, whole, &name, false)                                           \
AEAD_OPEN(open_##name, open, &name)                                                   \
AEAD_BEGIN(begin_##name, begin, &name)                                                \
AEAD_AAD(aad_##name, add_aad, &name)                                                  \
AEAD_TEXT(encrypt_##name, crypt, &name, false)                                        \
AEAD_TEXT(decrypt_##name, crypt, &name, true)                                         \
AEAD_END(end_##name, end, &name)
AES_ALL(TIER)

#define IMPL(func, tier_name, end_name, prio, ct, ...)                                \
	{                                                                             \
		.alg = "ccm(aes)", .driver = "ccm-aes-" end_name, .kind = KILN_AEAD,  \
		.tier = KILN_TIER_##tier_name, .priority = prio, .constant_time = ct, \
		.key_min = 16, .key_max = 32, .key_step = 8, .ivsize = 16,            \
		.blocksize = 1, .digestsize = 16, .tag_min = 4, .tag_step = 2,        \
		.ctxsize = sizeof(struct aes_key),                                    \
		.statesize = sizeof(struct ccm_state), .class = KILN_SLOW,            \
		.setkey = aes_setkey,                                                 \
		.aead = { .seal = seal_##func, .open = open_##func,                   \
			  .begin = begin_##func, .aad = aad_##func,                   \
			  .encrypt = encrypt_##func, .decrypt = decrypt_##func,       \
			  .end = end_##func, __VA_ARGS__ },                           \
	},
#define ALONE(...) IMPL(__VA_ARGS__, )
#define MANY(func, ...)                                                               \
	IMPL(func, __VA_ARGS__, .seal_many = ccm_seal_many_##func,                    \
	     .open_many = ccm_open_many_##func, .lanes = AES_LANES_##func)

static const struct kiln_impl impls[] = {
	AES_SCALAR(ALONE)
	AES_SIMD(MANY)
};

KILN_IMPLS(ccm_impls, impls);
