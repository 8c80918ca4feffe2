// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES modes: the list of implementations. */
#include "modes.h"

#include "../list.h"

static int setkey(void *ctx, const u8 *key, size_t len)
{
	return aes_expandkey(ctx, key, len);
}

#define IMPL(alg_name, func, end, tier_name, prio, ct, iv, block, speed, enc, dec) \
	{                                                                             \
		.alg = alg_name "(aes)", .driver = alg_name "-aes-" end,              \
		.kind = KILN_SKCIPHER, .tier = KILN_TIER_##tier_name,                 \
		.priority = prio, .constant_time = ct,                                \
		.key_min = 16, .key_max = 32, .key_step = 8,                          \
		.ivsize = iv, .blocksize = block, .ctxsize = sizeof(struct aes_key),  \
		.class = speed, .setkey = setkey,                                     \
		.cipher.encrypt = enc##_##func, .cipher.decrypt = dec##_##func,                             \
	}

/* Priorities are those of Linux 6.12 where it has an equivalent. */
#define SCALAR(alg, iv, block, speed, enc, dec)                                       \
	IMPL(alg, generic, "generic", GENERIC, 100, false, iv, block, speed, enc, dec), \
	IMPL(alg, fixed_time, "fixed-time", GENERIC, 110, true, iv, block, speed, enc, dec)
#define MODE(alg, iv, block, speed, enc, dec)                                         \
	SCALAR(alg, iv, block, speed, enc, dec),                                      \
	IMPL(alg, aesni, "aesni", AESNI, 400, true, iv, block, speed, enc, dec),      \
	IMPL(alg, vaes_avx2, "vaes-avx2", VAES_AVX2, 600, true, iv, block, speed, enc, dec), \
	IMPL(alg, vaes_avx512, "vaes-avx512", VAES_AVX512, 800, true, iv, block, speed, \
	     enc, dec)

/* Encryption is serial in CBC: what many messages gain is the most there is. */
#define CBC_TIER(func, end, tier_name, prio, many)                                       \
	{                                                                             \
		.alg = "cbc(aes)", .driver = "cbc-aes-" end,                          \
		.kind = KILN_SKCIPHER, .tier = KILN_TIER_##tier_name,                 \
		.priority = prio, .constant_time = true,                              \
		.key_min = 16, .key_max = 32, .key_step = 8,                          \
		.ivsize = 16, .blocksize = 16, .ctxsize = sizeof(struct aes_key),     \
		.class = KILN_SLOW, .setkey = setkey,                                 \
		.cipher.encrypt = aes_cbc_encrypt_##func,                             \
		.cipher.decrypt = aes_cbc_decrypt_##func,                             \
		.cipher.encrypt_many = aes_cbc_encrypt_many_##func,                   \
		.cipher.lanes = many,                                                 \
	}

static const struct kiln_impl impls[] = {
	MODE("ecb", 0, 16, KILN_MEDIUM, aes_ecb_encrypt, aes_ecb_decrypt),
	SCALAR("cbc", 16, 16, KILN_SLOW, aes_cbc_encrypt, aes_cbc_decrypt),
	CBC_TIER(aesni, "aesni", AESNI, 400, 8),
	CBC_TIER(vaes_avx2, "vaes-avx2", VAES_AVX2, 600, 16),
	CBC_TIER(vaes_avx512, "vaes-avx512", VAES_AVX512, 800, 32),
	MODE("ctr", 16, 1, KILN_MEDIUM, aes_ctr, aes_ctr),
};

KILN_IMPLS(modes_impls, impls);
