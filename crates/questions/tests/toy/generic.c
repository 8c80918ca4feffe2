// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "toy.h"

void toy_encrypt_generic(const void *ctx, u8 *dst, const u8 *src, size_t len, u8 *iv)
{
	const u8 *key = ctx;
	size_t i;

	(void)iv;
	for (i = 0; i < len; i++)
		dst[i] = src[i] + key[i % TOY_BLOCK];
}

void toy_decrypt_generic(const void *ctx, u8 *dst, const u8 *src, size_t len, u8 *iv)
{
	const u8 *key = ctx;
	size_t i;

	(void)iv;
	for (i = 0; i < len; i++)
		dst[i] = src[i] - key[i % TOY_BLOCK];
}
