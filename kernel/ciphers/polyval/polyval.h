/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * POLYVAL (RFC 8452, 3) and GHASH (NIST SP 800-38D, 6.4). GHASH is POLYVAL with the bytes of
 * each block reversed and the key multiplied by x (RFC 8452, appendix A), so both use the same
 * arithmetic.
 *
 * An element is two little-endian words, the lower first. A product is a * b * x^-128 modulo x^128
 * + x^127 + x^126 + x^121 + 1.
 *
 * polyval.c			messages in pieces, the table of implementations
 * generic.c			keys, and blocks in general-purpose registers
 * polyval_simd.h		blocks and whole messages with vectors: the template for aesni.c,
 *				vaes_avx2.c and vaes_avx512.c
 */
#ifndef KILN_POLYVAL_H
#define KILN_POLYVAL_H

#include <kiln/types.h>

#include "../tiers.h"

#define POLYVAL_BLOCK_SIZE 16

/* The number of key powers: enough for 16 four-block vectors plus four more blocks. */
#define POLYVAL_POWERS 68
/* A sum of more blocks than this always covers exactly 16 whole vectors. */
#define POLYVAL_SHORT 36
#define POLYVAL_UPPER (POLYVAL_POWERS - POLYVAL_SHORT)

/*
 * Row i of @power is the key raised to the power POLYVAL_POWERS - i, so the last n blocks of a sum
 * are multiplied by the last n rows. Rows of zeros follow, for partial vectors.
 *
 * Karatsuba's method needs the sum of each row's two halves. @halves stores these sums. For row i
 * of the last POLYVAL_SHORT rows, the sum is in the lower half of row i - POLYVAL_UPPER of @halves.
 * For row i of the first POLYVAL_SHORT rows, it is in the upper half of row i of @halves.
 */
struct polyval_key {
	u64 power[POLYVAL_POWERS + 4][2] __aligned(64);
	u64 halves[POLYVAL_SHORT + 4][2];
};

/* Expand a key in constant time, with general-purpose registers only. */
void polyval_setkey(struct polyval_key *key, const u8 raw[POLYVAL_BLOCK_SIZE]);
void ghash_setkey(struct polyval_key *key, const u8 raw[POLYVAL_BLOCK_SIZE]);

/*
 * Hashes @blocks blocks. @acc is in POLYVAL's representation for both algorithms. If @ghash is
 * set, the bytes of each block are reversed first.
 */
typedef void polyval_blocks_t(const struct polyval_key *key, u64 acc[2], const u8 *data,
			      size_t blocks, bool ghash);

/* Hashes a whole message, padded with zeros. */
typedef void polyval_whole_t(const struct polyval_key *key, const u8 *data, size_t len,
			     u8 *out, bool ghash);

polyval_blocks_t polyval_blocks_generic;
#define POLYVAL_DECLARE(name, ...)              \
	polyval_blocks_t polyval_blocks_##name; \
	polyval_whole_t polyval_whole_##name;
AES_SIMD(POLYVAL_DECLARE)

#endif
