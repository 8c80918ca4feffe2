/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES-XTS (IEEE 1619-2018, NIST SP 800-38E), ciphertext stealing included.
 *
 * xts.c APIs:
 *	xts_setkey		both key schedules
 *	xts_tweak_advance	for messages in pieces
 * generic.c, fixed_time.c, aesni.c, vaes_avx2.c, vaes_avx512.c APIs, each tier:
 *	xts_encrypt_TIER	one whole message, tweak included
 *	xts_decrypt_TIER
 *	xts_first_tweak_TIER	for a message in pieces
 *	xts_encrypt_piece_TIER
 *	xts_decrypt_piece_TIER
 */
#ifndef KILN_XTS_H
#define KILN_XTS_H

#include <kiln/cipher.h>

#include "../aes/aes.h"

/*
 * @tweak encrypts the IV (IEEE 1619's Key2), @data the message (Key1). The part
 * that every call reads comes first and is aligned to a cache line.
 */
struct xts_key {
	struct aes_key tweak;
	struct aes_key data;
} __aligned(64);

/*
 * @raw is Key1 then Key2, @len bytes together: 32, 48 or 64 (48, AES-192, is
 * outside IEEE 1619 but what kernels accept). Return 0, or -EINVAL with @key
 * unchanged.
 */
int xts_setkey(struct xts_key *key, const u8 *raw, size_t len);

/*
 * kiln/cipher.h has what these take. A message has at least 16 bytes and is one data unit; a
 * length that is not a multiple of 16 ends in ciphertext stealing. Whole messages leave the IV
 * unchanged. First turns the IV into the tweak of the first block (IEEE 1619, 5.3.1), and a
 * piece advances it to the tweak of the piece that follows. All pieces but the last have whole
 * blocks; the last has at least one.
 */
#define XTS_TIER(name)                                                        \
	kiln_crypt_t xts_encrypt_##name, xts_decrypt_##name;                  \
	kiln_crypt_t xts_encrypt_piece_##name, xts_decrypt_piece_##name;      \
	void xts_first_tweak_##name(const void *ctx, u8 *iv)
XTS_TIER(generic);
XTS_TIER(fixed_time);
XTS_TIER(aesni);
XTS_TIER(vaes_avx2);
XTS_TIER(vaes_avx512);
#undef XTS_TIER

/*
 * The tweak of the block @blocks after the one that @tweak belongs to (IEEE 1619, 5.2:
 * times x^blocks).
 */
void xts_tweak_advance(u8 tweak[AES_BLOCK_SIZE], size_t blocks);

#endif
