// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include <kiln/string.h>

#include "../list.h"
#include "toy.h"

static int setkey(void *ctx, const u8 *key, size_t len)
{
	if (len != TOY_BLOCK)
		return -EINVAL;
	memcpy(ctx, key, len);
	return 0;
}

#define IMPL(name, tier_name, prio)                                                   \
	{                                                                             \
		.alg = "toy", .driver = "toy-" #name, .kind = KILN_SKCIPHER,          \
		.tier = KILN_TIER_##tier_name, .priority = prio,                      \
		.constant_time = true, .key_min = TOY_BLOCK, .key_max = TOY_BLOCK,    \
		.blocksize = TOY_BLOCK, .ctxsize = TOY_BLOCK, .class = KILN_FAST,     \
		.setkey = setkey,                                                     \
		.cipher.encrypt = toy_encrypt_##name,                                 \
		.cipher.decrypt = toy_decrypt_##name,                                 \
	}

static const struct kiln_impl impls[] = {
	IMPL(generic, GENERIC, 100),
	IMPL(aesni, AESNI, 400),
};

KILN_IMPLS(toy_impls, impls);
