/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A common interface to the two AES implementations in general-purpose registers. Modes use it with
 * constant arguments, so that the compiler generates direct calls.
 */
#ifndef KILN_AES_SCALAR_H
#define KILN_AES_SCALAR_H

#include <kiln/unaligned.h>

#include "aes.h"

struct aes_scalar {
	aes_blocks_t *encrypt, *decrypt;
	size_t batch;	/* maximum blocks per call */
};

static __always_inline void aes_encrypt_blocks_generic(const struct aes_key *key, u8 *dst,
						       const u8 *src, size_t blocks)
{
	for (; blocks; blocks--, dst += AES_BLOCK_SIZE, src += AES_BLOCK_SIZE)
		aes_encrypt_generic(key, dst, src);
}

static __always_inline void aes_decrypt_blocks_generic(const struct aes_key *key, u8 *dst,
						       const u8 *src, size_t blocks)
{
	for (; blocks; blocks--, dst += AES_BLOCK_SIZE, src += AES_BLOCK_SIZE)
		aes_decrypt_generic(key, dst, src);
}

static const struct aes_scalar aes_scalar_generic = {
	.encrypt = aes_encrypt_blocks_generic,
	.decrypt = aes_decrypt_blocks_generic,
	.batch = 1,
};

/*
 * Each call bit-slices the round keys once, which takes a third as long as processing four blocks.
 * More blocks per call therefore take less time per block. 32 blocks fit in the 512 bytes that a
 * kernel stack can spare.
 */
static const struct aes_scalar aes_scalar_fixed_time = {
	.encrypt = aes_encrypt_fixed_time,
	.decrypt = aes_decrypt_fixed_time,
	.batch = 32,
};

/* dst = a ^ b for one block, in 64-bit words. */
static __always_inline void aes_xor_block(u8 *dst, const u8 *a, const u8 *b)
{
	const u64 lo = get_le64(a) ^ get_le64(b), hi = get_le64(a + 8) ^ get_le64(b + 8);

	put_le64(lo, dst);
	put_le64(hi, dst + 8);
}

#endif
