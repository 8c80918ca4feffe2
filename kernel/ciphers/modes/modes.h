/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES in the modes of NIST SP 800-38A: ECB, CBC, CTR. Their context is a struct aes_key. CMAC and
 * CCM also use these functions.
 *
 * modes.c		the table of implementations
 * scalar.h		the modes in general-purpose registers: generic.c, fixed_time.c
 * modes_simd.h		the modes with vectors: aesni.c, vaes_avx2.c, vaes_avx512.c
 * cbc_many.h		CBC encryption of many messages with vectors
 */
#ifndef KILN_AES_MODES_H
#define KILN_AES_MODES_H

#include <kiln/cipher.h>

#include "../aes/aes.h"
#include "../tiers.h"

/*
 * Runs CBC over all blocks of @data, starting from the block at @acc. Afterwards @acc holds the
 * last block of ciphertext; the other blocks are not stored.
 */
typedef void aes_mac_t(const struct aes_key *key, u8 acc[AES_BLOCK_SIZE], const u8 *data,
		       size_t blocks);

/*
 * The functions of one tier, which have the type kiln_crypt_t. ECB ignores the IV. CTR uses all 128
 * bits as the counter, and has one function for encryption and decryption.
 */
#define AES_MODES_DECLARE(name, ...)                                   \
	kiln_crypt_t aes_ecb_encrypt_##name, aes_ecb_decrypt_##name;   \
	kiln_crypt_t aes_cbc_encrypt_##name, aes_cbc_decrypt_##name;   \
	kiln_crypt_t aes_ctr_##name;                                   \
	aes_mac_t aes_mac_##name;
AES_ALL(AES_MODES_DECLARE)
#define AES_MANY_DECLARE(name, ...) kiln_crypt_many_t aes_cbc_encrypt_many_##name;
AES_SIMD(AES_MANY_DECLARE)

/* Wraps aes_expandkey() for use as an implementation's setkey function. */
int aes_setkey(void *ctx, const u8 *key, size_t len);

#endif
