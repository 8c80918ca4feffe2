/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * NHPoly1305 as Linux has it for Adiantum: NH makes 32 bytes of each 1024 of the message
 * (of the last ones, zeros added up to 16), Poly1305 without a nonce makes 16 bytes of these.
 * A key is 16 bytes for Poly1305 and 1072 for NH.
 *
 * nhpoly1305.c		what all tiers share: keys, pieces, the table
 * generic.c, TIER.c	NH
 * nh_simd.h		the template of the SIMD tiers
 */
#ifndef KILN_NHPOLY1305_H
#define KILN_NHPOLY1305_H

#include "../poly1305/poly1305.h"

#define NH_UNIT 16		/* bytes it works on at a time */
#define NH_PASSES 4
#define NH_MESSAGE 1024
#define NH_KEY_BYTES (NH_MESSAGE + NH_UNIT * (NH_PASSES - 1))
#define NHPOLY1305_KEY_SIZE (POLY1305_BLOCK_SIZE + NH_KEY_BYTES)

/* The NH value of a message, in memory as Poly1305 takes it. */
struct nh_sum {
	u64 pass[NH_PASSES];
};

/*
 * Pass p takes unit n of a message with unit n + p of the key, a0..a3 being their sums word
 * by word, and adds a0 * a2 + a1 * a3. The key's units are kept in the order 0, 2, 1, 3, so
 * that with the message in this order, too, factors are the halves of 64-bit words.
 */
struct nhpoly1305_key {
	struct poly1305_key poly;
	u32 nh[NH_KEY_BYTES / 4] __aligned(64);
};

struct nhpoly1305_state {
	struct poly1305_sum sum;
	struct nh_sum nh;		/* of the message begun */
	u64 begun;			/* bytes of it, in whole units */
	u8 buffer[NH_UNIT];
	u64 kept;			/* bytes in it */
};

/* @units units at @src with the key from @key on, a sum for each 1024 bytes. */
typedef void nh_t(const u32 *key, const u8 *src, size_t units, struct nh_sum *sums);

#define NH_DECLARE(name, ...) nh_t nh_##name;
VECTOR_ALL(NH_DECLARE, )

#endif
