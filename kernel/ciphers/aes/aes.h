/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES (FIPS 197): the key schedule every tier shares, and the two scalar
 * ciphers.
 *
 * key.c APIs:
 *	aes_expandkey		key schedule of both directions, constant-time
 * generic.c APIs:
 *	aes_encrypt_generic	table-based, as kernels have it; NOT constant-time
 *	aes_decrypt_generic
 * fixed_time.c APIs:
 *	aes_encrypt_fixed_time	bit-sliced, constant-time, up to four blocks at once
 *	aes_decrypt_fixed_time
 */
#ifndef KILN_AES_H
#define KILN_AES_H

#include <kiln/types.h>

#define AES_BLOCK_SIZE 16
#define AES_MAX_ROUNDS 14
#define AES_MAX_ROUND_KEYS (AES_MAX_ROUNDS + 1)

/*
 * An expanded key. @enc holds rounds + 1 round keys in the order encryption
 * uses them, in the byte order of the state (FIPS 197, 5.2). @dec holds those of
 * the equivalent inverse cipher (FIPS 197, 5.3.5) in the order decryption uses
 * them: what AESDEC takes.
 */
struct aes_key {
	u8 enc[AES_MAX_ROUND_KEYS][AES_BLOCK_SIZE] __aligned(16);
	u8 dec[AES_MAX_ROUND_KEYS][AES_BLOCK_SIZE] __aligned(16);
	u32 rounds;	/* 10, 12 or 14 */
};

/*
 * Expand a key of @len bytes (16, 24 or 32), in constant time and in general
 * registers, so that it may run in any context. Return 0, or -EINVAL for
 * another length, with @key unchanged.
 */
int aes_expandkey(struct aes_key *key, const u8 *raw, size_t len);

/* One block. @dst may be @src. Table look-ups at secret addresses. */
void aes_encrypt_generic(const struct aes_key *key, u8 dst[AES_BLOCK_SIZE],
			 const u8 src[AES_BLOCK_SIZE]);
void aes_decrypt_generic(const struct aes_key *key, u8 dst[AES_BLOCK_SIZE],
			 const u8 src[AES_BLOCK_SIZE]);

/* @blocks independent blocks (ECB), any number; @dst may be @src. */
void aes_encrypt_fixed_time(const struct aes_key *key, u8 *dst, const u8 *src,
			    size_t blocks);
void aes_decrypt_fixed_time(const struct aes_key *key, u8 *dst, const u8 *src,
			    size_t blocks);

#endif
