/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * ChaCha20 (RFC 8439) with a 16-byte IV as in Linux: the 32-bit counter of the first block, which
 * wraps around, followed by the 12-byte nonce.
 *
 * chacha.c		code that all tiers share, and the table of implementations
 * generic.c, TIER.c	key stream, and its XOR with the text
 * chacha_scalar.h	one block in general-purpose registers
 * chacha_simd.h	the template of the SIMD tiers, with chacha_blocks.h
 * ymm_vaes_avx512.c	two or eight blocks for the AVX-512 tier
 */
#ifndef KILN_CHACHA_H
#define KILN_CHACHA_H

#include <kiln/types.h>

#include "../tiers.h"

#define CHACHA_BLOCK_SIZE 64
#define CHACHA_KEY_SIZE 32
#define CHACHA_IV_SIZE 16
#define CHACHA_NONCE_SIZE 12

#define CHACHA_AHEAD 2048

struct poly1305_key;

struct chacha_key {
	u32 word[8];
};

/* The first four words of the state (RFC 8439, 2.3). */
#define CHACHA_CONSTANTS { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 }

typedef void chacha_crypt_t(const struct chacha_key *key, u8 *dst, const u8 *src,
			    size_t len, const u8 iv[CHACHA_IV_SIZE]);
/*
 * Begins an authenticated message: takes the key of Poly1305 from block 0 of the key stream, and
 * encrypts @len bytes, at most CHACHA_AHEAD, with the key stream from block 1 on. If @hashed is not
 * 0, also computes the powers of r that the tier uses to hash @hashed bytes.
 */
typedef void chacha_start_t(const struct chacha_key *key, struct poly1305_key *mac, size_t hashed,
			    u8 *dst, const u8 *src, size_t len,
			    const u8 nonce[CHACHA_NONCE_SIZE]);
/* Like chacha_start_t, but writes the key stream itself to @dst, which has CHACHA_AHEAD bytes. */
typedef void chacha_stream_t(const struct chacha_key *key, struct poly1305_key *mac, size_t hashed,
			     u8 *dst, size_t len, const u8 nonce[CHACHA_NONCE_SIZE]);
typedef void chacha_xor_t(u8 *dst, const u8 *src, const u8 *with, size_t len);
/* Wipes @len bytes, rounded up to a multiple of 64. */
typedef void chacha_wipe_t(u8 *p, size_t len);

#define CHACHA_DECLARE(name, ...)         \
	chacha_crypt_t chacha_crypt_##name;   \
	chacha_start_t chacha_start_##name;   \
	chacha_stream_t chacha_stream_##name; \
	chacha_xor_t chacha_xor_##name;       \
	chacha_wipe_t chacha_wipe_##name;
VECTOR_ALL(CHACHA_DECLARE, )

/*
 * Write the key stream of two or eight blocks for vaes_avx512.c, starting @more blocks after the
 * counter in @iv.
 */
void chacha_ymm_two(const struct chacha_key *key, const u8 *iv, u32 more, u8 *dst);
void chacha_ymm_eight(const struct chacha_key *key, const u8 *iv, u32 more, u8 *dst);

/* Computes one key stream block. */
void chacha_block_generic(const struct chacha_key *key, u8 block[CHACHA_BLOCK_SIZE],
			  const u8 iv[CHACHA_IV_SIZE]);

int chacha_setkey(void *ctx, const u8 *key, size_t len);

#endif
