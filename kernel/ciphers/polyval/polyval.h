/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * POLYVAL (RFC 8452, 3) and GHASH (NIST SP 800-38D, 6.4), which is POLYVAL with the bytes of
 * all blocks in reverse order and a key multiplied by x (RFC 8452, appendix A): one arithmetic
 * for both.
 *
 * An element is two little-endian words, the lower first. A product is a * b * x^-128 modulo
 * x^128 + x^127 + x^126 + x^121 + 1.
 *
 * polyval.c			messages in pieces, the table
 * generic.c			keys, and blocks in general registers
 * aesni.c, vaes_avx2.c, vaes_avx512.c	blocks and whole messages with vectors, by polyval_simd.h
 */
#ifndef KILN_POLYVAL_H
#define KILN_POLYVAL_H

#include <kiln/types.h>

#include "../tiers.h"

#define POLYVAL_BLOCK_SIZE 16

/* Powers of the key that there are: 16 vectors of four blocks, and a few blocks more. */
#define POLYVAL_POWERS 68
/* A sum with more than these is one of all 16 vectors. */
#define POLYVAL_SHORT 36
#define POLYVAL_UPPER (POLYVAL_POWERS - POLYVAL_SHORT)

/*
 * Row i of @power has the key to the power of POLYVAL_POWERS - i: n blocks that end a sum are
 * multiplied with the last n. Zeros follow for vectors that are not full. For Karatsuba's way of
 * multiplying there is the sum of both halves of a row: of the last POLYVAL_SHORT rows, row i,
 * in the lower half of row i - POLYVAL_UPPER of @halves, and of the first as many in the upper
 * half of row i.
 */
struct polyval_key {
	u64 power[POLYVAL_POWERS + 4][2] __aligned(64);
	u64 halves[POLYVAL_SHORT + 4][2];
};

/* In constant time and general registers. */
void polyval_setkey(struct polyval_key *key, const u8 raw[POLYVAL_BLOCK_SIZE]);
void ghash_setkey(struct polyval_key *key, const u8 raw[POLYVAL_BLOCK_SIZE]);

/* @acc is as POLYVAL has it for both; @ghash: blocks' bytes are in reverse order. */
typedef void polyval_blocks_t(const struct polyval_key *key, u64 acc[2], const u8 *data,
			      size_t blocks, bool ghash);

/* A whole message, filled up with zeros. */
typedef void polyval_whole_t(const struct polyval_key *key, const u8 *data, size_t len,
			     u8 *out, bool ghash);

polyval_blocks_t polyval_blocks_generic;
#define POLYVAL_DECLARE(name, ...)              \
	polyval_blocks_t polyval_blocks_##name; \
	polyval_whole_t polyval_whole_##name;
AES_SIMD(POLYVAL_DECLARE)

#endif
