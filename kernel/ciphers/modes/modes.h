/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES in the modes of NIST SP 800-38A: ECB, CBC, CTR. The context of each is a struct aes_key.
 * CMAC and CCM use them too.
 *
 * modes.c		the table
 * scalar.h		the modes in general registers: generic.c, fixed_time.c
 * modes_simd.h		with vectors: aesni.c, vaes_avx2.c, vaes_avx512.c
 * cbc_many.h		of them, CBC encryption of many messages
 */
#ifndef KILN_AES_MODES_H
#define KILN_AES_MODES_H

#include <kiln/cipher.h>

#include "../aes/aes.h"

/*
 * All blocks of @data through CBC from the block at @acc, which becomes the last block of
 * ciphertext; nothing else is kept.
 */
typedef void aes_mac_t(const struct aes_key *key, u8 acc[AES_BLOCK_SIZE], const u8 *data,
		       size_t blocks);

/* kiln_crypt_t's. ECB ignores the IV; CTR counts in all 128 bits, both ways alike. */
#define AES_MODES_TIER(name)                                                     \
	kiln_crypt_t aes_ecb_encrypt_##name, aes_ecb_decrypt_##name;            \
	kiln_crypt_t aes_cbc_encrypt_##name, aes_cbc_decrypt_##name;            \
	kiln_crypt_t aes_ctr_##name;                                             \
	aes_mac_t aes_mac_##name
AES_MODES_TIER(generic);
AES_MODES_TIER(fixed_time);
AES_MODES_TIER(aesni);
AES_MODES_TIER(vaes_avx2);
AES_MODES_TIER(vaes_avx512);
#undef AES_MODES_TIER
kiln_crypt_many_t aes_cbc_encrypt_many_aesni, aes_cbc_encrypt_many_vaes_avx2,
	aes_cbc_encrypt_many_vaes_avx512;

#endif
