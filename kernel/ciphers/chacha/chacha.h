/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * ChaCha20 (RFC 8439) with a 16-byte IV as Linux has it: the counter of the first block,
 * 32 bits that wrap, then the nonce of 12 bytes.
 *
 * chacha.c		what all tiers share, the table
 * generic.c, TIER.c	key stream and its XOR
 * chacha_scalar.h	one block in general registers
 * chacha_simd.h	the template of the SIMD tiers
 */
#ifndef KILN_CHACHA_H
#define KILN_CHACHA_H

#include <kiln/types.h>

#include "../tiers.h"

#define CHACHA_BLOCK_SIZE 64
#define CHACHA_KEY_SIZE 32
#define CHACHA_IV_SIZE 16

#define CHACHA_AHEAD 2048

struct chacha_key {
	u32 word[8];
};

/* RFC 8439, 2.3: the first four words. */
#define CHACHA_CONSTANTS { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 }

typedef void chacha_crypt_t(const struct chacha_key *key, u8 *dst, const u8 *src,
			    size_t len, const u8 iv[CHACHA_IV_SIZE]);
/*
 * The beginning of a message that is authenticated: the key stream's first block to @block,
 * and @len bytes, at most CHACHA_AHEAD, encrypted with the blocks after it.
 */
typedef void chacha_start_t(const struct chacha_key *key, u8 block[CHACHA_BLOCK_SIZE],
			    u8 *dst, const u8 *src, size_t len,
			    const u8 iv[CHACHA_IV_SIZE]);
/* The same with the key stream itself at @dst, which has room for CHACHA_AHEAD. */
typedef void chacha_stream_t(const struct chacha_key *key, u8 block[CHACHA_BLOCK_SIZE],
			     u8 *dst, size_t len, const u8 iv[CHACHA_IV_SIZE]);
typedef void chacha_xor_t(u8 *dst, const u8 *src, const u8 *with, size_t len);

#define CHACHA_DECLARE(name, ...)         \
	chacha_crypt_t chacha_crypt_##name;   \
	chacha_start_t chacha_start_##name;   \
	chacha_stream_t chacha_stream_##name; \
	chacha_xor_t chacha_xor_##name;
VECTOR_ALL(CHACHA_DECLARE, )

/* A block of the key stream. */
void chacha_block_generic(const struct chacha_key *key, u8 block[CHACHA_BLOCK_SIZE],
			  const u8 iv[CHACHA_IV_SIZE]);

int chacha_setkey(void *ctx, const u8 *key, size_t len);

#endif
