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

#define CHACHA_BLOCK_SIZE 64
#define CHACHA_KEY_SIZE 32
#define CHACHA_IV_SIZE 16

struct chacha_key {
	u32 word[8];
};

/* RFC 8439, 2.3: the first four words. */
#define CHACHA_CONSTANTS { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 }

typedef void chacha_crypt_t(const struct chacha_key *key, u8 *dst, const u8 *src,
			    size_t len, const u8 iv[CHACHA_IV_SIZE]);
/* The key stream itself; @out has room for CHACHA_STREAM_BLOCKS and is written so far as
 * the tier likes, but for @blocks at least. */
typedef void chacha_stream_t(const struct chacha_key *key, u8 *out, size_t blocks,
			     const u8 iv[CHACHA_IV_SIZE]);

typedef void chacha_xor_t(u8 *dst, const u8 *src, const u8 *with, size_t len);

#define CHACHA_STREAM_BLOCKS 32

chacha_crypt_t chacha_crypt_generic;
chacha_crypt_t chacha_crypt_aesni;
chacha_crypt_t chacha_crypt_avx2;
chacha_crypt_t chacha_crypt_vaes_avx512;

chacha_stream_t chacha_stream_generic;
chacha_stream_t chacha_stream_aesni;
chacha_stream_t chacha_stream_avx2;
chacha_stream_t chacha_stream_vaes_avx512;

chacha_xor_t chacha_xor_generic;
chacha_xor_t chacha_xor_aesni;
chacha_xor_t chacha_xor_avx2;
chacha_xor_t chacha_xor_vaes_avx512;

int chacha_setkey(void *ctx, const u8 *key, size_t len);

#endif
