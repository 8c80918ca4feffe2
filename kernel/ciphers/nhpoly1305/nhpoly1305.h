/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * NHPoly1305 as in Linux's Adiantum. NH reduces each 1024 bytes of the message to 32 bytes; a last
 * part shorter than 1024 bytes is padded with zeros to a multiple of 16 bytes. Poly1305 without a
 * nonce reduces the NH sums to 16 bytes. A key has 16 bytes for Poly1305 and 1072 for NH.
 *
 * nhpoly1305.c		keys, messages in pieces, the table of implementations
 * generic.c, TIER.c	NH
 * nh_simd.h		the template of the SIMD tiers
 */
#ifndef KILN_NHPOLY1305_H
#define KILN_NHPOLY1305_H

#include "../poly1305/poly1305.h"

#define NH_UNIT 16		/* bytes that NH hashes as one unit */
#define NH_PASSES 4
#define NH_MESSAGE 1024
#define NH_KEY_BYTES (NH_MESSAGE + NH_UNIT * (NH_PASSES - 1))
#define NHPOLY1305_KEY_SIZE (POLY1305_BLOCK_SIZE + NH_KEY_BYTES)

/* The NH value of a message, in the byte order that Poly1305 reads. */
struct nh_sum {
	u64 pass[NH_PASSES];
};

/*
 * Pass p adds unit n of a message to unit n + p of the key, word by word. From the four sums
 * a0..a3, it accumulates a0 * a2 + a1 * a3. The words of each unit of the key are stored in the
 * order 0, 2, 1, 3. Once the words of the message are in the same order, the two factors of each
 * product are the halves of a 64-bit word.
 */
struct nhpoly1305_key {
	struct poly1305_key poly;
	u32 nh[NH_KEY_BYTES / 4] __aligned(64);
};

struct nhpoly1305_state {
	struct poly1305_sum sum;
	struct nh_sum nh;		/* NH value of the current NH message so far */
	u64 begun;			/* bytes of the current NH message so far, in whole units */
	u8 buffer[NH_UNIT];
	u64 kept;			/* number of bytes in the buffer */
};

/* Hashes @units units at @src with the key words at @key. Writes one sum for every 1024 bytes. */
typedef void nh_t(const u32 *key, const u8 *src, size_t units, struct nh_sum *sums);

#define NH_DECLARE(name, ...) nh_t nh_##name;
VECTOR_ALL(NH_DECLARE, )

#endif
