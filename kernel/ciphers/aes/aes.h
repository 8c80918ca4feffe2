/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* AES (FIPS 197): the key schedule, which all tiers share, and the two scalar ciphers. */
#ifndef KILN_AES_H
#define KILN_AES_H

#include <kiln/types.h>

#define AES_BLOCK_SIZE 16
#define AES_MAX_ROUNDS 14
#define AES_MAX_ROUND_KEYS (AES_MAX_ROUNDS + 1)

/*
 * An expanded key. @enc holds the rounds + 1 encryption round keys in the order of use and in the
 * byte order of the state (FIPS 197, 5.2). @dec holds the round keys of the equivalent inverse
 * cipher (FIPS 197, 5.3.5) in the order of use, as AESDEC expects them.
 */
struct aes_key {
	u8 enc[AES_MAX_ROUND_KEYS][AES_BLOCK_SIZE] __aligned(16);
	u8 dec[AES_MAX_ROUND_KEYS][AES_BLOCK_SIZE] __aligned(16);
	u32 rounds;	/* 10, 12 or 14 */
};

/*
 * key.c: expands a key of @len bytes (16, 24 or 32) in constant time, using general-purpose
 * registers only, so it can be called in any context. Returns 0, or -EINVAL for any other length,
 * with @key unchanged.
 */
int aes_expandkey(struct aes_key *key, const u8 *raw, size_t len);

/*
 * generic.c: processes one block. @dst may equal @src. Not constant-time: the addresses of the
 * table look-ups depend on secrets.
 */
typedef void aes_block_t(const struct aes_key *key, u8 dst[AES_BLOCK_SIZE],
			 const u8 src[AES_BLOCK_SIZE]);
aes_block_t aes_encrypt_generic, aes_decrypt_generic;

/*
 * fixed_time.c: processes any number of blocks (ECB) in constant time, four blocks per pass. @dst
 * may equal @src.
 */
typedef void aes_blocks_t(const struct aes_key *key, u8 *dst, const u8 *src, size_t blocks);
aes_blocks_t aes_encrypt_fixed_time, aes_decrypt_fixed_time;

#endif
