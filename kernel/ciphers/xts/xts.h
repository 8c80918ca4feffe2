/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES-XTS (IEEE 1619-2018, NIST SP 800-38E), ciphertext stealing included.
 *
 * xts.c APIs:
 *	xts_setkey		both key schedules
 * generic.c, aesni.c, vaes_avx2.c, vaes_avx512.c APIs, one pair a tier:
 *	xts_TIER_encrypt	one whole message, tweak included
 *	xts_TIER_decrypt
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

xts_crypt_t xts_generic_encrypt, xts_generic_decrypt;
xts_crypt_t xts_fixed_time_encrypt, xts_fixed_time_decrypt;
xts_crypt_t xts_aesni_encrypt, xts_aesni_decrypt;
xts_crypt_t xts_vaes_avx2_encrypt, xts_vaes_avx2_decrypt;
xts_crypt_t xts_vaes_avx512_encrypt, xts_vaes_avx512_decrypt;

#endif
