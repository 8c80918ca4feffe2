// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * AES-XTS over the table-based AES, block by block: as slow, and as far from
 * constant time, as that is (aes/generic.c).
 */
#include "xts_scalar.h"

static __always_inline void encrypt_block(const struct aes_key *key, u8 *dst, const u8 *src,
					  size_t blocks __maybe_unused)
{
	aes_encrypt_generic(key, dst, src);
}

static __always_inline void decrypt_block(const struct aes_key *key, u8 *dst, const u8 *src,
					  size_t blocks __maybe_unused)
{
	aes_decrypt_generic(key, dst, src);
}

/* Not aes_scalar_generic, whose loop over blocks costs an instruction per block here. */
static const struct aes_scalar one_block = { encrypt_block, decrypt_block, 1 };

XTS_SCALAR(generic, one_block, 1)
