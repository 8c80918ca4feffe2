// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * AES-XTS over the table-based AES, block by block: as slow, and as far from
 * constant time, as that is (aes/generic.c).
 */
#include "xts_scalar.h"

static __always_inline void generic_encrypt(const struct aes_key *key, u8 *dst,
					    const u8 *src, size_t blocks)
{
	(void)blocks;
	aes_encrypt_generic(key, dst, src);
}

static __always_inline void generic_decrypt(const struct aes_key *key, u8 *dst,
					    const u8 *src, size_t blocks)
{
	(void)blocks;
	aes_decrypt_generic(key, dst, src);
}

XTS_SCALAR(generic, generic_encrypt, generic_decrypt, 1)
