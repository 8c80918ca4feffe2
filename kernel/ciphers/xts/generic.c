// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * AES-XTS with the table-based AES in aes/generic.c, block by block. It is slow and not
 * constant-time.
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

/*
 * Processes one block per call. aes_scalar_generic is not used here, because its loop over blocks
 * would cost an extra instruction per block.
 */
static const struct aes_scalar one_block = { encrypt_block, decrypt_block, 1 };

XTS_SCALAR(generic, one_block, 1)
