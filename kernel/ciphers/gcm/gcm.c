// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * gcm(aes) and rfc4106(gcm(aes)): keys, messages in pieces, and the list of implementations.
 *
 * The associated data of rfc4106 is as the RFC defines it. It does not include the IV, which Linux
 * appends to the associated data in its requests.
 */
#include "gcm.h"

#include <kiln/string.h>
#include <kiln/unaligned.h>

#include "../entry.h"
#include "../list.h"
#include "../modes/modes.h"
#include "../partial.h"
#include "../verdict.h"

static noinline int expand(void *ctx, const u8 *raw, size_t len)
{
	struct gcm_key *key = ctx;
	u8 h[AES_BLOCK_SIZE] __aligned(16) = { 0 };

	if (aes_expandkey(&key->aes, raw, len))
		return -EINVAL;
	aes_encrypt_fixed_time(&key->aes, h, h, 1);
	ghash_setkey(&key->h, h);
	key->salt = 0;
	memzero_explicit(h, sizeof(h));
	return 0;
}

static int gcm_setkey(void *ctx, const u8 *raw, size_t len)
{
	const int result = expand(ctx, raw, len);

	kiln_wipe_below();
	return result;
}

/* Sets an rfc4106 key, whose last four bytes are the salt (RFC 4106, 8.1). */
static int rfc4106_setkey(void *ctx, const u8 *raw, size_t len)
{
	struct gcm_key *key = ctx;
	int result = -EINVAL;

	if (len >= sizeof(key->salt))
		result = expand(ctx, raw, len - sizeof(key->salt));
	if (!result)
		key->salt = get_le32(raw + len - sizeof(key->salt));
	kiln_wipe_below();
	return result;
}

typedef struct gcm_iv make_iv_t(const struct gcm_key *key, const u8 *iv);

static __always_inline struct gcm_iv gcm_iv(const struct gcm_key *key __maybe_unused,
					    const u8 *iv)
{
	return (struct gcm_iv){ .first = get_le64(iv), .last = get_le32(iv + 8) };
}

/* Forms the GCM IV of an rfc4106 message: the salt, followed by the IV (RFC 4106, 4). */
static __always_inline struct gcm_iv rfc4106_iv(const struct gcm_key *key, const u8 *iv)
{
	const u64 explicit = get_le64(iv);

	return (struct gcm_iv){ .first = explicit << 32 | key->salt, .last = explicit >> 32 };
}

static void start(struct gcm_state *s, struct gcm_iv iv)
{
	memset(s, 0, sizeof(*s));
	put_le64(iv.first, s->j0);
	put_le32(iv.last, s->j0 + 8);
	s->j0[15] = 1;
}

static __always_inline void begin(make_iv_t *make_iv, const struct gcm_key *key,
				  struct gcm_state *s, const u8 *iv,
				  size_t aadlen __maybe_unused, size_t len __maybe_unused,
				  size_t tagsize __maybe_unused)
{
	start(s, make_iv(key, iv));
}

AEAD_BEGIN(gcm_begin, begin, gcm_iv)
AEAD_BEGIN(rfc4106_begin, begin, rfc4106_iv)

static __always_inline void add_aad(polyval_blocks_t *blocks, const struct gcm_key *key,
				    struct gcm_state *s, const u8 *aad, size_t len)
{
	u64 kept = s->aadlen % AES_BLOCK_SIZE;

	s->aadlen += len;
	if (kept) {
		if (!fill_block(s->buffer, &kept, AES_BLOCK_SIZE, &aad, &len))
			return;
		blocks(&key->h, s->acc, s->buffer, 1, true);
	}
	blocks(&key->h, s->acc, aad, len / AES_BLOCK_SIZE, true);
	memset(s->buffer, 0, sizeof(s->buffer));
	memcpy(s->buffer, aad + len / AES_BLOCK_SIZE * AES_BLOCK_SIZE, len % AES_BLOCK_SIZE);
}

/* Hashes the last partial block of associated data, which is already zero-padded in the buffer. */
static __always_inline void end_aad(polyval_blocks_t *blocks, const struct gcm_key *key,
				    struct gcm_state *s)
{
	if (s->aadlen % AES_BLOCK_SIZE && !s->len)
		blocks(&key->h, s->acc, s->buffer, 1, true);
}

static __always_inline void end(polyval_blocks_t *blocks, kiln_crypt_t *encrypt,
				const struct gcm_key *key, struct gcm_state *s, u8 *tag,
				size_t tagsize)
{
	u8 mask[AES_BLOCK_SIZE] __aligned(16), last[AES_BLOCK_SIZE] __aligned(16);

	end_aad(blocks, key, s);
	put_le64(__builtin_bswap64(8 * s->aadlen), last);
	put_le64(__builtin_bswap64(8 * s->len), last + 8);
	blocks(&key->h, s->acc, last, 1, true);
	encrypt(&key->aes, mask, s->j0, sizeof(mask), NULL);
	put_le64(get_le64(mask) ^ __builtin_bswap64(s->acc[1]), last);
	put_le64(get_le64(mask + 8) ^ __builtin_bswap64(s->acc[0]), last + 8);
	memcpy(tag, last, tagsize);
	memzero_explicit(mask, sizeof(mask));
	memzero_explicit(last, sizeof(last));
	memzero_explicit(s, sizeof(*s));
}

/*
 * Processes a piece of text. Ignores an empty piece, because end_aad() must run exactly once,
 * before the first byte of text.
 */
static __always_inline void crypt(polyval_blocks_t *blocks, gcm_text_t *text,
				  const struct gcm_key *key, struct gcm_state *s, u8 *dst,
				  const u8 *src, size_t len)
{
	if (!len)
		return;
	end_aad(blocks, key, s);
	text(key, s, dst, src, len);
}

static int verdict(bool right, u8 *dst, size_t len)
{
	if (!tag_is_wrong(!right))
		return 0;
	memzero_explicit(dst, len);
	return -EBADMSG;
}

/*
 * Defines a tier's functions for processing a message in pieces. @name is the suffix of the tier's
 * AES functions, and @hash is the suffix of the polyval function that the tier uses.
 */
#define PIECES(name, hash)                                                            \
AEAD_AAD(aad_##name, add_aad, polyval_blocks_##hash)                                  \
AEAD_TEXT(encrypt_##name, crypt, polyval_blocks_##hash, gcm_encrypt_##name)           \
AEAD_TEXT(decrypt_##name, crypt, polyval_blocks_##hash, gcm_decrypt_##name)           \
AEAD_END(end_##name, end, polyval_blocks_##hash, aes_ecb_encrypt_##name)

/* Defines a tier's functions for whole messages in terms of its functions for pieces. */
#define WHOLE_PIECES(name)                                                            \
static __always_inline void gcm_seal_##name(const struct gcm_key *key, u8 *dst, const u8 *src, \
					size_t len, const u8 *aad, size_t aadlen,     \
					struct gcm_iv iv, u8 *tag, size_t tagsize)    \
{                                                                                     \
	struct gcm_state s;                                                           \
										      \
	start(&s, iv);                                                                \
	aad_##name(key, &s, aad, aadlen);                                             \
	encrypt_##name(key, &s, dst, src, len);                                       \
	end_##name(key, &s, tag, tagsize);                                            \
}                                                                                     \
static __always_inline bool gcm_open_##name(const struct gcm_key *key, u8 *dst, const u8 *src, \
					size_t len, const u8 *aad, size_t aadlen,     \
					struct gcm_iv iv, const u8 *tag, size_t tagsize) \
{                                                                                     \
	u8 want[AES_BLOCK_SIZE];                                                      \
	struct gcm_state s;                                                           \
	bool right;                                                                   \
										      \
	start(&s, iv);                                                                \
	aad_##name(key, &s, aad, aadlen);                                             \
	decrypt_##name(key, &s, dst, src, len);                                       \
	end_##name(key, &s, want, tagsize);                                           \
	right = !secrets_differ(want, tag, tagsize);                                  \
	memzero_explicit(want, sizeof(want));                                         \
	return right;                                                                 \
}

/* Process whole messages. gcm(aes) and rfc4106(gcm(aes)) differ only in @make_iv. */
static __always_inline void seal(make_iv_t *make_iv, gcm_seal_t *fn, const struct gcm_key *key,
				 u8 *dst, const u8 *src, size_t len, const u8 *aad,
				 size_t aadlen, const u8 *iv, u8 *tag, size_t tagsize)
{
	fn(key, dst, src, len, aad, aadlen, make_iv(key, iv), tag, tagsize);
}

static __always_inline int open(make_iv_t *make_iv, gcm_open_t *fn, const struct gcm_key *key,
				u8 *dst, const u8 *src, size_t len, const u8 *aad,
				size_t aadlen, const u8 *iv, const u8 *tag, size_t tagsize)
{
	return verdict(fn(key, dst, src, len, aad, aadlen, make_iv(key, iv), tag, tagsize),
		       dst, len);
}

#define WHOLE(alg, name)                                                              \
AEAD_SEAL(alg##_seal_whole_##name, seal, alg##_iv, gcm_seal_##name)                   \
AEAD_OPEN(alg##_open_whole_##name, open, alg##_iv, gcm_open_##name)
#define SCALAR(name, ...)                                                             \
	PIECES(name, generic)                                                         \
	WHOLE_PIECES(name)                                                            \
	WHOLE(gcm, name)                                                              \
	WHOLE(rfc4106, name)
#define SIMD(name, ...)                                                               \
	PIECES(name, name)                                                            \
	WHOLE(gcm, name)                                                              \
	WHOLE(rfc4106, name)
AES_SCALAR(SCALAR)
AES_SIMD(SIMD)

#define IMPL(name, func, driver_name, tier_name, prio, ct, more_key, iv, tag)         \
	.driver = driver_name, .kind = KILN_AEAD, .tier = KILN_TIER_##tier_name,      \
	.priority = prio, .constant_time = ct, .key_min = 16 + more_key,              \
	.key_max = 32 + more_key, .key_step = 8, .ivsize = iv, .blocksize = 1,        \
	.digestsize = 16, .tag_min = tag, .tag_step = 4,                              \
	.ctxsize = sizeof(struct gcm_key), .statesize = sizeof(struct gcm_state),     \
	.class = KILN_MEDIUM, .longest = GCM_MAX_TEXT,                                \
	.setkey = name##_setkey,                                                      \
	.aead = { .seal = name##_seal_whole_##func, .open = name##_open_whole_##func, \
		  .begin = name##_begin, .aad = aad_##func, .encrypt = encrypt_##func, \
		  .decrypt = decrypt_##func, .end = end_##func }
#define BOTH(func, tier_name, end, prio, ct)                                          \
	{ .alg = "gcm(aes)",                                                          \
	  IMPL(gcm, func, "gcm-aes-" end, tier_name, prio, ct, 0, 12, 4) },           \
	{ .alg = "rfc4106(gcm(aes))",                                                 \
	  IMPL(rfc4106, func, "rfc4106-gcm-aes-" end, tier_name, prio, ct, 4, 8, 8) },

static const struct kiln_impl impls[] = {
	AES_ALL(BOTH)
};

KILN_IMPLS(gcm_impls, impls);
