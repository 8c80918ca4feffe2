/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Poly1305 (RFC 8439, 2.5). setkey takes the one-time key.
 *
 * poly1305.c		messages in pieces, padding, the table of implementations
 * generic.c		functions in general-purpose registers: blocks, powers of r
 * poly1305_words.h	one block in general-purpose registers, words of 64 bits
 * poly1305_limbs.h	multiplication in limbs of 44 bits, for powers of r
 * simd26.h		blocks in vectors, limbs of 26 bits: aesni.c, avx2.c
 * vaes_avx512.c	blocks in vectors, limbs of 44 bits and IFMA
 * ifma.h		multiplication and powers of r with IFMA
 */
#ifndef KILN_POLY1305_H
#define KILN_POLY1305_H

#include <kiln/types.h>

#include "../tiers.h"

#define POLY1305_BLOCK_SIZE 16
#define POLY1305_KEY_SIZE 32
#define POLY1305_DIGEST_SIZE 16

/*
 * r, s, and the powers of r for implementations that process several blocks together. In each
 * array, the first index selects the limb and the second index selects the power: index n in low44
 * and low26 is r^(8 - n), and high44 contains r^16, r^24 and r^32.
 */
struct poly1305_key {
	u64 r[2], s[2];
	u64 high44[3][4];
	u64 low44[3][8] __aligned(64);
	u32 low26[5][8];
};

/* The sum so far, less than 2^131, in words of 64 bits. */
struct poly1305_sum {
	u64 h[3];
};

struct poly1305_state {
	struct poly1305_sum sum;
	u8 buffer[POLY1305_BLOCK_SIZE];
	u64 kept;			/* number of bytes in the buffer */
};

/* Processes whole blocks. All tiers except the generic one use the powers in @key. */
typedef void poly1305_blocks_t(const struct poly1305_key *key, struct poly1305_sum *sum,
			       const u8 *src, size_t blocks);

#define POLY1305_DECLARE(name, ...) poly1305_blocks_t poly1305_blocks_##name;
VECTOR_ALL(POLY1305_DECLARE, )

/* Sets r and s from the four words of the one-time key, and clamps r. */
static __always_inline void poly1305_set(struct poly1305_key *key, u64 r0, u64 r1, u64 s0, u64 s1)
{
	key->r[0] = r0 & 0x0ffffffc0fffffff;
	key->r[1] = r1 & 0x0ffffffc0ffffffc;
	key->s[0] = s0;
	key->s[1] = s1;
}

/* In generic.c: sets r and s from the bytes of the one-time key, and clamps r. */
void poly1305_clamp(struct poly1305_key *key, const u8 *raw);
/* Computes all powers of r, so that any tier can use them. */
void poly1305_powers(struct poly1305_key *key);
/* Processes one block. @bit, 0 or 1, is appended to the block as its 129th bit. */
void poly1305_block(const struct poly1305_key *key, struct poly1305_sum *sum, const u8 *src,
		    u64 bit);
/*
 * Processes a last block of @len bytes, 1 to 15. If @whole is set, pads it with zeros to a whole
 * block. Otherwise, pads it like the end of a message (RFC 8439, 2.5.1): with a byte of value 1,
 * followed by zeros.
 */
void poly1305_part(const struct poly1305_key *key, struct poly1305_sum *sum, const u8 *src,
		   size_t len, bool whole);
/* Processes a block that consists of two words. */
void poly1305_two_words(const struct poly1305_key *key, struct poly1305_sum *sum, u64 m0, u64 m1);
/* Writes the tag: ((sum mod (2^130 - 5)) + s) mod 2^128. */
void poly1305_emit(const struct poly1305_key *key, const struct poly1305_sum *sum, u8 *out);

#endif
