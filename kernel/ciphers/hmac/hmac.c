// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * HMAC (RFC 2104) over the hashes of ../merkle.h.
 *
 * The context has the states of the hash after the block of the key and either pad, so that
 * a message costs the blocks it has itself and one more. Both are made in general registers:
 * setkey has no section.
 */
#include <kiln/string.h>

#include "../list.h"
#include "../sha1/sha1.h"
#include "../sha2/sha2.h"

struct hmac_ctx {
	u64 inner[8], outer[8];
};

/* The state after the block of @key and @pad. */
static __always_inline void pad_state(const struct md *md, md_blocks_t *blocks, u64 *h,
				      const u64 *key, u64 pad)
{
	u64 block[MD_MAX_BLOCK / 8];
	u32 i;

	for (i = 0; i < md->block / 8; i++)
		block[i] = key[i] ^ pad;
	md_copy_words(md, h, md->iv);
	blocks(h, (const u8 *)block, 1);
	wipe_words(block, sizeof(block));
}

static __always_inline int set_key(const struct md *md, md_blocks_t *blocks, md_end_t *end,
				   void *context, const u8 *key, size_t len)
{
	struct hmac_ctx *const ctx = context;
	u64 block[MD_MAX_BLOCK / 8] = { 0 };

	if (len > md->block) {
		end(md->iv, key, len, len, (u8 *)block);
	} else {
		memcpy(block, key, len);
	}
	pad_state(md, blocks, ctx->inner, block, 0x3636363636363636);
	pad_state(md, blocks, ctx->outer, block, 0x5c5c5c5c5c5c5c5c);
	wipe_words(block, sizeof(block));
	return 0;
}

static __always_inline void init(const struct md *md, const struct hmac_ctx *ctx,
				 struct md_state *s)
{
	md_copy_words(md, s->h, ctx->inner);
	s->bytes = md->block;
}

/* The end of @bytes bytes, the block of the key included: the last @len of them, from state @h. */
static __always_inline void finish(const struct md *md, md_end_t *end,
				   const struct hmac_ctx *ctx, const u64 *h, const u8 *data,
				   size_t len, u64 bytes, u8 *out)
{
	u8 inner[64] __aligned(64);

	end(h, data, len, bytes, inner);
	end(ctx->outer, inner, md->digest, md->block + md->digest, out);
	wipe_words(inner, sizeof(inner));
}

#define HASH(hash)                                                                    \
static int hash##_setkey(void *ctx, const u8 *key, size_t len)                        \
{                                                                                     \
	const int result = set_key(&hash##_md, hash##_blocks_generic,                 \
				   hash##_end_generic, ctx, key, len);                \
										      \
	kiln_wipe_below();                                                            \
	return result;                                                                \
}                                                                                     \
static void hash##_init(const void *ctx, void *state)                                 \
{                                                                                     \
	init(&hash##_md, ctx, state);                                                 \
}

#define TIER(hash, tier)                                                              \
static void hash##_update_##tier(const void *ctx, void *state, const u8 *data,        \
				 size_t len)                                          \
{                                                                                     \
	(void)ctx;                                                                    \
	md_update(&hash##_md, hash##_blocks_##tier, state, data, len);                \
}                                                                                     \
static void hash##_final_##tier(const void *ctx, void *state, u8 *out)                \
{                                                                                     \
	struct md_state *s = state;                                                   \
										      \
	finish(&hash##_md, hash##_end_##tier, ctx, s->h, s->buffer,                   \
	       s->bytes % hash##_md.block, s->bytes, out);                            \
	wipe_words(s, MD_STATE_SIZE(hash##_md.block));                                   \
}                                                                                     \
static void hash##_digest_##tier(const void *context, const u8 *data, size_t len,     \
				 u8 *out)                                             \
{                                                                                     \
	const struct hmac_ctx *ctx = context;                                         \
										      \
	finish(&hash##_md, hash##_end_##tier, ctx, ctx->inner, data, len,             \
	       hash##_md.block + len, out);                                           \
}

HASH(sha1)
TIER(sha1, generic)
TIER(sha1, sha_ni)

HASH(sha256)
TIER(sha256, generic)
TIER(sha256, avx2)
TIER(sha256, sha_ni)

HASH(sha512)
TIER(sha512, generic)
TIER(sha512, avx2)
TIER(sha512, avx512)

#define IMPL(fn, HASH, tier_name, TIER, ending, prio)                               \
	{                                                                             \
		.alg = "hmac(" #fn ")", .driver = "hmac-" #fn "-" ending,         \
		.kind = KILN_HASH, .tier = KILN_TIER_##TIER, .priority = prio,        \
		.constant_time = true, .digestsize = HASH##_DIGEST,                   \
		.blocksize = HASH##_BLOCK, .statesize = MD_STATE_SIZE(HASH##_BLOCK),  \
		.key_min = 0, .key_max = KILN_ANY_KEY, .key_step = 1,                 \
		.ctxsize = sizeof(struct hmac_ctx), .setkey = fn##_setkey,            \
		.class = KILN_SLOW,                                                   \
		.hash = { fn##_init, fn##_update_##tier_name,                     \
			  fn##_final_##tier_name, fn##_digest_##tier_name, NULL },\
	}

static const struct kiln_impl impls[] = {
	IMPL(sha1, SHA1, generic, GENERIC, "generic", 100),
	IMPL(sha1, SHA1, sha_ni, SHA_NI, "sha-ni", 500),
	IMPL(sha256, SHA256, generic, GENERIC, "generic", 100),
	IMPL(sha256, SHA256, avx2, AVX2, "avx2", 450),
	IMPL(sha256, SHA256, sha_ni, SHA_NI, "sha-ni", 500),
	IMPL(sha512, SHA512, generic, GENERIC, "generic", 100),
	IMPL(sha512, SHA512, avx2, AVX2, "avx2", 500),
	IMPL(sha512, SHA512, avx512, VAES_AVX512, "avx512", 700),
};

KILN_IMPLS(hmac_impls, impls);
