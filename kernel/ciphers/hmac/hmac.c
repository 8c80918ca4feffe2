// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * HMAC (RFC 2104) with the hashes that ../merkle.h implements.
 *
 * The context holds two states of the hash: after the block of key XOR inner pad, and after the
 * block of key XOR outer pad. An HMAC therefore takes one more compression than the plain hash of
 * the same message. Both states are computed in general-purpose registers, since setkey runs
 * outside of FPU sections.
 */
#include <kiln/string.h>

#include "../list.h"
#include "../sha1/sha1.h"
#include "../sha2/sha2.h"

struct hmac_ctx {
	u64 inner[8], outer[8];
};

/* Computes the state after the block of @key XOR @pad. */
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

static __always_inline void set_key(const struct md *md, md_blocks_t *blocks, md_end_t *end,
				    struct hmac_ctx *ctx, const u8 *key, size_t len)
{
	u64 block[MD_MAX_BLOCK / 8] = { 0 };

	if (len > md->block)
		end(md->iv, key, len, len, (u8 *)block);
	else
		memcpy(block, key, len);
	pad_state(md, blocks, ctx->inner, block, 0x3636363636363636);
	pad_state(md, blocks, ctx->outer, block, 0x5c5c5c5c5c5c5c5c);
	wipe_words(block, sizeof(block));
}

/*
 * Finishes a hash of @bytes bytes, including the key block: hashes the last @len bytes, starting
 * from the state @h.
 */
static __always_inline void finish(const struct md *md, md_end_t *end,
				   const struct hmac_ctx *ctx, const u64 *h, const u8 *data,
				   size_t len, u64 bytes, u8 *out)
{
	u8 inner[64] __aligned(64);

	end(h, data, len, bytes, inner);
	end(ctx->outer, inner, md->digest, md->block + md->digest, out);
	wipe_words(inner, sizeof(inner));
}

static __always_inline void final(const struct md *md, md_end_t *end,
				  const struct hmac_ctx *ctx, struct md_state *s, u8 *out)
{
	finish(md, end, ctx, s->h, s->buffer, s->bytes % md->block, s->bytes, out);
	wipe_words(s, MD_STATE_SIZE(md->block));
}

static __always_inline void digest(const struct md *md, md_end_t *end,
				   const struct hmac_ctx *ctx, const u8 *data, size_t len,
				   u8 *out)
{
	finish(md, end, ctx, ctx->inner, data, len, md->block + len, out);
}

static __always_inline void finish_many(md_many_t *many, const struct hmac_ctx *ctx,
					const struct md_state *s,
					const struct kiln_message *m, size_t count)
{
	many(s, ctx->outer, m, count);
}

#define HASH(hash)                                                                    \
static int hash##_setkey(void *ctx, const u8 *key, size_t len)                        \
{                                                                                     \
	set_key(&hash##_md, hash##_blocks_generic, hash##_end_generic, ctx, key, len); \
	kiln_wipe_below();                                                            \
	return 0;                                                                     \
}                                                                                     \
static void hash##_init(const void *ctx, void *state)                                 \
{                                                                                     \
	md_begin(&hash##_md, state, ((const struct hmac_ctx *)ctx)->inner,            \
		 hash##_md.block);                                                    \
}
#define TIER(HASH, hash, tier, TIER, end, prio, n)                                    \
HASH_UPDATE(hash##_update_##tier, md_update, &hash##_md, hash##_blocks_##tier)        \
HASH_FINAL(hash##_final_##tier, final, &hash##_md, hash##_end_##tier)                 \
HASH_DIGEST(hash##_digest_##tier, digest, &hash##_md, hash##_end_##tier)              \
MD_LANES_##n(HASH_FINISH_MANY(hash##_finish_many_##tier, finish_many, hash##_many_##tier))

HASH(sha1)
SHA1_ALL(TIER)
HASH(sha256)
SHA256_ALL(TIER)
HASH(sha512)
SHA512_ALL(TIER)

#define IMPL(HASH, fn, tier_name, TIER, end, prio, n)                                 \
	{                                                                             \
		.alg = "hmac(" #fn ")", .driver = "hmac-" #fn "-" end,                \
		.key_min = 0, .key_max = KILN_ANY_KEY, .key_step = 1,                 \
		.ctxsize = sizeof(struct hmac_ctx), .setkey = fn##_setkey,            \
		MD_FIELDS(HASH, fn, tier_name, TIER, prio, n),                           \
	},

static const struct kiln_impl impls[] = {
	SHA1_ALL(IMPL)
	SHA256_ALL(IMPL)
	SHA512_ALL(IMPL)
};

KILN_IMPLS(hmac_impls, impls);
