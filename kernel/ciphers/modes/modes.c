// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* AES modes: the list of implementations. */
#include "modes.h"

#include "../list.h"

int aes_setkey(void *ctx, const u8 *key, size_t len)
{
	return aes_expandkey(ctx, key, len);
}

#define IMPL(mode, func, tier_name, end, prio, ct, iv, block, speed, ...)             \
	{                                                                             \
		.alg = mode "(aes)", .driver = mode "-aes-" end,                      \
		.kind = KILN_SKCIPHER, .tier = KILN_TIER_##tier_name,                 \
		.priority = prio, .constant_time = ct,                                \
		.key_min = 16, .key_max = 32, .key_step = 8,                          \
		.ivsize = iv, .blocksize = block, .ctxsize = sizeof(struct aes_key),  \
		.class = speed, .setkey = aes_setkey, .cipher = { __VA_ARGS__ },      \
	},
#define ECB(func, ...)                                                                \
	IMPL("ecb", func, __VA_ARGS__, 0, 16, KILN_MEDIUM,                            \
	     .encrypt = aes_ecb_encrypt_##func, .decrypt = aes_ecb_decrypt_##func)
#define CTR(func, ...)                                                                \
	IMPL("ctr", func, __VA_ARGS__, 16, 1, KILN_MEDIUM,                            \
	     .encrypt = aes_ctr_##func, .decrypt = aes_ctr_##func)
#define CBC_ALONE(func, ...)                                                          \
	IMPL("cbc", func, __VA_ARGS__, 16, 16, KILN_SLOW,                             \
	     .encrypt = aes_cbc_encrypt_##func, .decrypt = aes_cbc_decrypt_##func)
#define CBC_MANY(func, ...)                                                           \
	IMPL("cbc", func, __VA_ARGS__, 16, 16, KILN_SLOW,                             \
	     .encrypt = aes_cbc_encrypt_##func, .decrypt = aes_cbc_decrypt_##func,    \
	     .encrypt_many = aes_cbc_encrypt_many_##func, .lanes = AES_LANES_##func)

static const struct kiln_impl impls[] = {
	AES_ALL(ECB)
	AES_SCALAR(CBC_ALONE)
	AES_SIMD(CBC_MANY)
	AES_ALL(CTR)
};

KILN_IMPLS(modes_impls, impls);
