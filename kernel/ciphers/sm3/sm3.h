/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SM3 (GB/T 32905-2016, draft-sca-cfrg-sm3-02).
 *
 * sm3.c	the table of implementations; ../merkle.h has the code that all tiers share
 * TIER.c	compression of blocks
 * sm3_simd.h	the template for the SIMD tiers
 * sm3_lanes.h	the template for hashing several messages at a time
 */
#ifndef KILN_SM3_H
#define KILN_SM3_H

#include "../merkle.h"

#define SM3_BLOCK 64
#define SM3_DIGEST 32

#define SM3_ALL(F)                                                     \
	F(SM3, sm3, generic, GENERIC, "generic", 100, 0)               \
	F(SM3, sm3, avx2, AVX2, "avx2", 500, 8)                        \
	F(SM3, sm3, avx512, VAES_AVX512, "avx512", 700, 16)
SM3_ALL(MD_DECLARE)

/* The constant of each round (GB/T 32905-2016, 4.2), already rotated for the round. */
extern const u32 sm3_t[64];

/* The initial value (GB/T 32905-2016, 4.1). */
static const u32 sm3_iv[8] = {
	0x7380166f, 0x4914b2b9, 0x172442d7, 0xda8a0600,
	0xa96f30bc, 0x163138aa, 0xe38dee4d, 0xb0fb0e4e,
};

static const struct md sm3_md = { SM3_BLOCK, SM3_DIGEST, sm3_iv };

#endif
