// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-XTS: key setup, the tweaks of later pieces, and the list of implementations. */
#include "xts.h"

#include <kiln/unaligned.h>

#include "../list.h"

/*
 * Sets Key1 and Key2, which are passed concatenated: together 32, 48 or 64 bytes. IEEE 1619 does
 * not define 48 bytes (AES-192), but kernels accept this length.
 */
static int setkey(void *ctx, const u8 *raw, size_t len)
{
	struct xts_key *key = ctx;

	if (len != 32 && len != 48 && len != 64)
		return -EINVAL;
	aes_expandkey(&key->data, raw, len / 2);
	aes_expandkey(&key->tweak, raw + len / 2, len / 2);
	return 0;
}

struct tweak {
	u64 lo, hi;
};

/*
 * Multiplies by x^n, where n is 1 to 56. The n bits shifted out at the top form a number v, which
 * is added back as the carryless product v * (x^7 + x^2 + x + 1). The product fits in 64 bits.
 */
static __always_inline struct tweak times(struct tweak t, const unsigned int n)
{
	const u64 out = t.hi >> (64 - n);

	t.hi = t.hi << n | t.lo >> (64 - n);
	t.lo = t.lo << n ^ out ^ out << 1 ^ out << 2 ^ out << 7;
	return t;
}

static __always_inline struct tweak plus(struct tweak a, struct tweak b)
{
	a.lo ^= b.lo;
	a.hi ^= b.hi;
	return a;
}

/*
 * Multiplies by x^128, which is congruent to x^7 + x^2 + x + 1. Squaring doubles exponents, so
 * x^(128 * 2^k) is congruent to this sum with every exponent multiplied by 2^k.
 */
static struct tweak times_128(struct tweak t)
{
	return plus(plus(times(t, 7), times(t, 2)), plus(times(t, 1), t));
}

static struct tweak times_2048(struct tweak t)
{
	return plus(plus(times(times(t, 56), 56), times(t, 32)), plus(times(t, 16), t));
}

static struct tweak times_16384(struct tweak t)
{
	const struct tweak one = times_128(t), two = times_128(one);
	struct tweak seven = two;
	int i;

	for (i = 2; i < 7; i++)
		seven = times_128(seven);
	return plus(plus(seven, two), plus(one, t));
}

/* Takes at most a few hundred cycles, even for as many blocks as a long section processes. */
void xts_tweak_advance(u8 tweak[AES_BLOCK_SIZE], size_t blocks)
{
	struct tweak t = { .lo = get_le64(tweak), .hi = get_le64(tweak + 8) };

	for (; blocks >= 16384; blocks -= 16384)
		t = times_16384(t);
	for (; blocks >= 2048; blocks -= 2048)
		t = times_2048(t);
	for (; blocks >= 128; blocks -= 128)
		t = times_128(t);
	for (; blocks >= 56; blocks -= 56)
		t = times(t, 56);
	if (blocks)
		t = times(t, blocks);
	put_le64(t.lo, tweak);
	put_le64(t.hi, tweak + 8);
}

#define IMPL(end, func, tier_name, prio, ct)                                           \
	{                                                                              \
		.alg = "xts(aes)", .driver = "xts-aes-" end,                           \
		.kind = KILN_SKCIPHER, .tier = KILN_TIER_##tier_name,                  \
		.priority = prio, .constant_time = ct,                                 \
		.key_min = 32, .key_max = 64, .key_step = 16,                          \
		.ivsize = AES_BLOCK_SIZE, .blocksize = 1, .shortest = AES_BLOCK_SIZE,  \
		.ctxsize = sizeof(struct xts_key), .class = KILN_MEDIUM,               \
		.setkey = setkey,                                                      \
		.cipher.encrypt = xts_encrypt_##func,                                  \
		.cipher.decrypt = xts_decrypt_##func,                                  \
		.cipher.first = xts_first_tweak_##func,                                \
		.cipher.encrypt_piece = xts_encrypt_piece_##func,                      \
		.cipher.decrypt_piece = xts_decrypt_piece_##func,                      \
	}

/* Implementations that also exist in Linux 6.12 have the same priorities as there. */
static const struct kiln_impl impls[] = {
	IMPL("generic", generic, GENERIC, 100, false),
	IMPL("fixed-time", fixed_time, GENERIC, 110, true),
	IMPL("aesni", aesni, AESNI, 401, true),
	IMPL("vaes-avx2", vaes_avx2, VAES_AVX2, 600, true),
	IMPL("vaes-avx512", vaes_avx512, VAES_AVX512, 800, true),
};

KILN_IMPLS(xts_impls, impls);
