// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* cmac(aes): keys, messages in pieces, and the list of implementations. */
#include "cmac.h"

#include <kiln/string.h>
#include <kiln/unaligned.h>

#include "../aes/scalar.h"
#include "../list.h"
#include "../partial.h"
#include "../modes/modes.h"

/* What has come may be all, so the last block is kept, though it be full. */
struct cmac_state {
	u8 acc[AES_BLOCK_SIZE];
	u8 buffer[AES_BLOCK_SIZE];
	u64 kept;
};

/* dst = src * x, bytes as in memory, most significant first (SP 800-38B, 6.1). */
static void doubled(u8 *dst, const u8 *src)
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
	doubled(key->sub[0], l);
	doubled(key->sub[1], key->sub[0]);
	memzero_explicit(l, sizeof(l));
	return 0;
}

static void init(const void *ctx, void *state)
{
	(void)ctx;
	memset(state, 0, sizeof(struct cmac_state));
}

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

#define PIECES(name)                                                                  \
static void update_##name(const void *ctx, void *state, const u8 *data, size_t len)   \
{                                                                                     \
	update(aes_mac_##name, ctx, state, data, len);                                \
}                                                                                     \
static void final_##name(const void *ctx, void *state, u8 *out)                       \
{                                                                                     \
	final(aes_mac_##name, ctx, state, out);                                       \
}
#define SCALAR(name)                                                                  \
PIECES(name)                                                                          \
static void digest_##name(const void *ctx, const u8 *data, size_t len, u8 *out)       \
{                                                                                     \
	struct cmac_state s = { .kept = 0 };                                          \
										      \
	update(aes_mac_##name, ctx, &s, data, len);                                   \
	final(aes_mac_##name, ctx, &s, out);                                          \
}
#define SIMD(name)                                                                    \
PIECES(name)                                                                          \
static void digest_##name(const void *ctx, const u8 *data, size_t len, u8 *out)       \
{                                                                                     \
	cmac_digest_##name(ctx, data, len, out);                                      \
}
SCALAR(generic)
SCALAR(fixed_time)
SIMD(aesni)
SIMD(vaes_avx2)
SIMD(vaes_avx512)

#define IMPL(func, end, tier_name, prio, ct)                                          \
	{                                                                             \
		.alg = "cmac(aes)", .driver = "cmac-aes-" end, .kind = KILN_HASH,     \
		.tier = KILN_TIER_##tier_name, .priority = prio, .constant_time = ct, \
		.key_min = 16, .key_max = 32, .key_step = 8,                          \
		.blocksize = AES_BLOCK_SIZE, .digestsize = AES_BLOCK_SIZE,            \
		.ctxsize = sizeof(struct cmac_key),                                   \
		.statesize = sizeof(struct cmac_state), .class = KILN_SLOW,           \
		.setkey = setkey,                                                     \
		.hash = { init, update_##func, final_##func, digest_##func, valid },  \
	}

static const struct kiln_impl impls[] = {
	IMPL(generic, "generic", GENERIC, 100, false),
	IMPL(fixed_time, "fixed-time", GENERIC, 110, true),
	IMPL(aesni, "aesni", AESNI, 400, true),
	IMPL(vaes_avx2, "vaes-avx2", VAES_AVX2, 600, true),
	IMPL(vaes_avx512, "vaes-avx512", VAES_AVX512, 800, true),
};

KILN_IMPLS(cmac_impls, impls);
