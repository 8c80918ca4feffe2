/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * BLAKE2s (RFC 7693) with a digest of 32 bytes, keyed or unkeyed.
 *
 * blake2s.c		code that all tiers share: messages in pieces, the table of implementations
 * generic.c, TIER.c	compression of blocks
 * simd.h		the template of the SIMD tiers
 */
#ifndef KILN_BLAKE2S_H
#define KILN_BLAKE2S_H

#include <kiln/types.h>

#define BLAKE2S_BLOCK_SIZE 64
#define BLAKE2S_DIGEST_SIZE 32
#define BLAKE2S_MAX_KEY 32

struct blake2s_state {
	u32 h[8];
	u64 bytes;			/* bytes compressed so far */
	u8 buffer[BLAKE2S_BLOCK_SIZE];
	u64 kept;			/* number of bytes in the buffer */
};

/* The initial state and the message permutations of the ten rounds (RFC 7693, 2.6 and 2.7). */
#define BLAKE2S_IV {                                                          \
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,                       \
	0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,                       \
}
#define BLAKE2S_ROUNDS(R)                                                     \
	R(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)               \
	R(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3)               \
	R(11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4)               \
	R(7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8)               \
	R(9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13)               \
	R(2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9)               \
	R(12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11)               \
	R(13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10)               \
	R(6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5)               \
	R(10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0)

/*
 * Compresses @blocks blocks. @bytes is the number of message bytes hashed up to the end of the
 * first block; each further block adds 64. For the last block of a message all bits of @last are
 * set.
 */
typedef void blake2s_blocks_t(u32 h[8], const u8 *data, size_t blocks, u64 bytes, u32 last);

blake2s_blocks_t blake2s_blocks_generic, blake2s_blocks_aesni, blake2s_blocks_vaes_avx512;

#endif
