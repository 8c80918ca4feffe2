/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The template of the modes in general-purpose registers. The including file uses MODES_SCALAR()
 * once. Intermediate secrets are kept in @work rather than in the destination, which other programs
 * may be able to read.
 */
#ifndef KILN_AES_MODES_SCALAR_H
#define KILN_AES_MODES_SCALAR_H

#include <kiln/string.h>

#include "../aes/scalar.h"
#include "modes.h"

#define B AES_BLOCK_SIZE

static __always_inline void scalar_ctr(const struct aes_scalar *c, const struct aes_key *key,
				       u8 *dst, const u8 *src, size_t len, u8 *iv, u8 *work)
{
	u64 hi = __builtin_bswap64(get_le64(iv)), lo = __builtin_bswap64(get_le64(iv + 8));

	while (len) {
		const size_t left = (len + B - 1) / B, n = left < c->batch ? left : c->batch;
		size_t i;

		for (i = 0; i < n; i++) {
			put_le64(__builtin_bswap64(hi), work + i * B);
			put_le64(__builtin_bswap64(lo), work + i * B + 8);
			lo++;
			hi += lo == 0;
		}
		c->encrypt(key, work, work, n);
		for (i = 0; i < n && len >= B; i++, len -= B, src += B, dst += B)
			aes_xor_block(dst, src, work + i * B);
		if (i < n) {
			for (; len; len--)
				dst[len - 1] = src[len - 1] ^ work[i * B + len - 1];
		}
	}
	put_le64(__builtin_bswap64(hi), iv);
	put_le64(__builtin_bswap64(lo), iv + 8);
	memzero_explicit(work, c->batch * B);
}

static __always_inline void scalar_cbc_encrypt(const struct aes_scalar *c,
					       const struct aes_key *key, u8 *dst,
					       const u8 *src, size_t len, u8 *iv, u8 *work)
{
	memcpy(work, iv, B);
	for (; len; len -= B, src += B, dst += B) {
		aes_xor_block(work, work, src);
		c->encrypt(key, work, work, 1);
		memcpy(dst, work, B);
	}
	memcpy(iv, work, B);
}

static __always_inline void scalar_cbc_decrypt(const struct aes_scalar *c,
					       const struct aes_key *key, u8 *dst,
					       const u8 *src, size_t len, u8 *iv, u8 *work)
{
	u8 last[B] __aligned(16);

	while (len) {
		const size_t left = len / B, n = left < c->batch ? left : c->batch;
		size_t i;

		memcpy(last, src + (n - 1) * B, B);
		c->decrypt(key, work, src, n);
		/*
		 * Go backwards: the destination may be the source, and each block needs the
		 * ciphertext before it.
		 */
		for (i = n; i--;)
			aes_xor_block(dst + i * B, work + i * B, i ? src + (i - 1) * B : iv);
		memcpy(iv, last, B);
		src += n * B;
		dst += n * B;
		len -= n * B;
	}
	memzero_explicit(work, c->batch * B);
}

static __always_inline void scalar_mac(const struct aes_scalar *c, const struct aes_key *key,
				       u8 *acc, const u8 *data, size_t blocks)
{
	for (; blocks; blocks--, data += B) {
		aes_xor_block(acc, acc, data);
		c->encrypt(key, acc, acc, 1);
	}
}

#define SCALAR_MODE(mode, name, blocks)                                               \
void aes_##mode##_##name(const void *ctx, u8 *dst, const u8 *src, size_t len, u8 *iv) \
{                                                                                     \
	u8 work[(blocks) * B] __aligned(16);                                          \
										      \
	scalar_##mode(scalar, ctx, dst, src, len, iv, work);                          \
}
#define MODES_SCALAR(name, blocks_)                                                   \
static const struct aes_scalar *const scalar = &aes_scalar_##name;                    \
										      \
void aes_ecb_encrypt_##name(const void *ctx, u8 *dst, const u8 *src, size_t len, u8 *iv __maybe_unused) \
{                                                                                     \
	scalar->encrypt(ctx, dst, src, len / B);                                      \
}                                                                                     \
void aes_ecb_decrypt_##name(const void *ctx, u8 *dst, const u8 *src, size_t len, u8 *iv __maybe_unused) \
{                                                                                     \
	scalar->decrypt(ctx, dst, src, len / B);                                      \
}                                                                                     \
SCALAR_MODE(cbc_encrypt, name, 1)                                                     \
SCALAR_MODE(cbc_decrypt, name, blocks_)                                               \
SCALAR_MODE(ctr, name, blocks_)                                                       \
void aes_mac_##name(const struct aes_key *key, u8 acc[B], const u8 *data, size_t blocks) \
{                                                                                     \
	scalar_mac(scalar, key, acc, data, blocks);                                   \
}

#endif
