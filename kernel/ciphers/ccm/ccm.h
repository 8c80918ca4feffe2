/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES-CCM (RFC 3610, NIST SP 800-38C). The IV is one block, as in Linux: the first byte is L - 1,
 * from 1 to 7, where L is the width of the length field in bytes. The nonce of 15 - L bytes
 * follows.
 *
 * ccm.c		messages in pieces, and the table of implementations
 * ccm_blocks.h		the blocks before the text, and the comparison of the tag
 * ccm_simd.h		the text with vectors: aesni.c, vaes_avx2.c, vaes_avx512.c
 * ccm_lanes.h		several messages at a time with vectors
 */
#ifndef KILN_CCM_H
#define KILN_CCM_H

#include <kiln/cipher.h>

#include "../aes/aes.h"
#include "../tiers.h"

/*
 * Adds a piece of text to the MAC and encrypts or decrypts it in CTR mode. Every piece but the last
 * consists of whole blocks.
 */
typedef void ccm_text_t(const struct aes_key *key, u8 acc[AES_BLOCK_SIZE],
			u8 ctr[AES_BLOCK_SIZE], u8 *dst, const u8 *src, size_t len);

#define CCM_DECLARE(name, ...)                                         \
	ccm_text_t ccm_encrypt_##name, ccm_decrypt_##name;             \
	kiln_seal_many_t ccm_seal_many_##name;                         \
	kiln_open_many_t ccm_open_many_##name;
AES_SIMD(CCM_DECLARE)

#endif
