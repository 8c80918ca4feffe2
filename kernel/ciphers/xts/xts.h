/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES-XTS (IEEE 1619-2018, NIST SP 800-38E) with ciphertext stealing.
 *
 * xts.c			keys, tweaks of later pieces, the table of implementations
 * xts_scalar.h		the template in general-purpose registers: generic.c, fixed_time.c
 * xts_simd.h		the template with vectors: aesni.c, vaes_avx2.c, vaes_avx512.c
 */
#ifndef KILN_XTS_H
#define KILN_XTS_H

#include <kiln/cipher.h>

#include "../aes/aes.h"
#include "../tiers.h"

/*
 * @data (Key1 of IEEE 1619) encrypts the message; @tweak (Key2) encrypts the IV. The part that
 * every call reads comes first and is aligned to a cache line.
 */
struct xts_key {
	struct aes_key tweak;
	struct aes_key data;
} __aligned(64);

/*
 * kiln/cipher.h describes the arguments. A message has at least 16 bytes and is one data unit; a
 * length that is not a multiple of 16 requires ciphertext stealing. Functions for whole messages
 * leave the IV unchanged. For pieces, first() turns the IV into the tweak of the first block (IEEE
 * 1619, 5.3.1), and each piece advances it to the tweak of the next piece. All pieces but the last
 * consist of whole blocks; the last piece has at least one block.
 */
#define XTS_DECLARE(name, ...)                                                \
	kiln_crypt_t xts_encrypt_##name, xts_decrypt_##name;                  \
	kiln_crypt_t xts_encrypt_piece_##name, xts_decrypt_piece_##name;      \
	void xts_first_tweak_##name(const void *ctx, u8 *iv);
AES_ALL(XTS_DECLARE)

/*
 * Advances @tweak by @blocks blocks: multiplies it by x^blocks (IEEE 1619, 5.2).
 */
void xts_tweak_advance(u8 tweak[AES_BLOCK_SIZE], size_t blocks);

#endif
