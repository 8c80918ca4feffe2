// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES-XTS in the table of all algorithms. */
#include "xts.h"

#include "../list.h"

static int setkey(void *ctx, const u8 *key, size_t len)
{
	return xts_setkey(ctx, key, len);
}

/* The functions of a tier as every algorithm has them. A piece leaves the tweak of the next. */
#define PIECE(func, direction)                                                         \
	static void func##_##direction(const void *ctx, u8 *dst, const u8 *src,        \
				       size_t len, u8 *iv)                             \
	{                                                                              \
		xts_##func##_##direction(ctx, dst, src, len, iv);                      \
	}                                                                              \
	static void func##_##direction##_piece(const void *ctx, u8 *dst, const u8 *src, \
					       size_t len, u8 *tweak)                  \
	{                                                                              \
		if (!len)                                                              \
			return;                                                        \
		xts_##func##_##direction##_from(ctx, dst, src, len, tweak);            \
		xts_tweak_advance(tweak, len / AES_BLOCK_SIZE);                        \
	}
#define TIER(func)                                                                     \
	PIECE(func, encrypt)                                                           \
	PIECE(func, decrypt)                                                           \
	static void func##_first(const void *ctx, u8 *iv)                              \
	{                                                                              \
		xts_##func##_first_tweak(ctx, iv);                                     \
	}

TIER(generic)
TIER(fixed_time)
TIER(aesni)
TIER(vaes_avx2)
TIER(vaes_avx512)

/* Names and priorities are those of xts.c, and a test holds the two to each other. */
#define IMPL(end, func, tier_name, prio, ct)                                           \
	{                                                                              \
		.alg = "xts(aes)", .driver = "xts-aes-" end,                           \
		.kind = KILN_SKCIPHER, .tier = KILN_TIER_##tier_name,                  \
		.priority = prio, .constant_time = ct,                                 \
		.key_min = 32, .key_max = 64, .key_step = 16,                          \
		.ivsize = AES_BLOCK_SIZE, .blocksize = 1, .shortest = AES_BLOCK_SIZE,  \
		.ctxsize = sizeof(struct xts_key), .setkey = setkey,                   \
		.cipher.encrypt = func##_encrypt, .cipher.decrypt = func##_decrypt,    \
		.cipher.first = func##_first,                                          \
		.cipher.encrypt_piece = func##_encrypt_piece,                          \
		.cipher.decrypt_piece = func##_decrypt_piece,                          \
	}

static const struct kiln_impl impls[] = {
	IMPL("generic", generic, GENERIC, 100, false),
	IMPL("fixed-time", fixed_time, GENERIC, 110, true),
	IMPL("aesni", aesni, AESNI, 401, true),
	IMPL("vaes-avx2", vaes_avx2, VAES_AVX2, 600, true),
	IMPL("vaes-avx512", vaes_avx512, VAES_AVX512, 800, true),
};

KILN_IMPLS(xts_impls, impls);
