/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES-CCM (RFC 3610, NIST SP 800-38C). The IV is a block, as Linux has it: its first byte is
 * 1 to 7, one less than the bytes of the length (L - 1), then comes the nonce of 15 - L bytes.
 */
#ifndef KILN_CCM_H
#define KILN_CCM_H

#include "../aes/aes.h"
#include "../tiers.h"

/* Text to the MAC and through CTR, or back: whole blocks unless it is the last piece. */
typedef void ccm_text_t(const struct aes_key *key, u8 acc[AES_BLOCK_SIZE],
			u8 ctr[AES_BLOCK_SIZE], u8 *dst, const u8 *src, size_t len);

#define CCM_DECLARE(name, ...) ccm_text_t ccm_encrypt_##name, ccm_decrypt_##name;
AES_SIMD(CCM_DECLARE)

#endif
