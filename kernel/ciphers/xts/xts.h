/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES-XTS (IEEE 1619-2018, NIST SP 800-38E), ciphertext stealing included.
 *
 * xts.c APIs:
 *	xts_setkey		both key schedules
 *	xts_tweak_advance	for messages in pieces
 * generic.c, fixed_time.c, aesni.c, vaes_avx2.c, vaes_avx512.c APIs, each tier:
 *	xts_TIER_encrypt	one whole message, tweak included
 *	xts_TIER_decrypt
 *	xts_TIER_first_tweak	for a message in pieces
 *	xts_TIER_encrypt_from	a piece of one, from its first tweak
 *	xts_TIER_decrypt_from
 */
#ifndef KILN_XTS_H
#define KILN_XTS_H

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
 * Encrypt or decrypt @len bytes, at least 16, from @src to @dst (the same, or
 * not overlapping) as one data unit with the 16-byte IV @iv. A length that is no
 * multiple of 16 ends in ciphertext stealing. SIMD tiers must be called inside
 * an FPU section.
 */
typedef void xts_crypt_t(const struct xts_key *key, u8 *dst, const u8 *src,
			 size_t len, const u8 iv[AES_BLOCK_SIZE]);

/*
 * The same for a piece of a message: @tweak takes the IV's place and is the tweak of the
 * piece's first block. All pieces but the last have whole blocks; the last has at least one.
 */
typedef void xts_from_t(const struct xts_key *key, u8 *dst, const u8 *src,
			size_t len, const u8 tweak[AES_BLOCK_SIZE]);

/* The IV at @tweak becomes the tweak of the first block (IEEE 1619, 5.3.1). */
typedef void xts_tweak_t(const struct xts_key *key, u8 tweak[AES_BLOCK_SIZE]);

#define XTS_TIER(name)                                                        \
	xts_crypt_t xts_##name##_encrypt, xts_##name##_decrypt;               \
	xts_from_t xts_##name##_encrypt_from, xts_##name##_decrypt_from;      \
	xts_tweak_t xts_##name##_first_tweak
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
