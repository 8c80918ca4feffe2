/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-1 (FIPS 180-4).
 *
 * sha1.c	the table of implementations; ../merkle.h has the code that all tiers share
 * TIER.c	compression of blocks
 * sha1_lanes.h	the template for hashing several messages at a time
 */
#ifndef KILN_SHA1_H
#define KILN_SHA1_H

#include "../merkle.h"

#define SHA1_BLOCK 64
#define SHA1_DIGEST 20

/*
 * The vector tiers hash several messages at a time. For a single message, they run the generic code
 * and additionally require an FPU section, so their priority is lower.
 */
#define SHA1_ALL(F)                                                    \
	F(SHA1, sha1, generic, GENERIC, "generic", 100, 0)             \
	F(SHA1, sha1, avx2, AVX2, "avx2", 80, 8)                       \
	F(SHA1, sha1, avx512, VAES_AVX512, "avx512", 90, 16)           \
	F(SHA1, sha1, sha_ni, SHA_NI, "sha-ni", 500, 2)
SHA1_ALL(MD_DECLARE)

/* The initial hash value (FIPS 180-4, 5.3.1). */
static const u32 sha1_iv[8] = {
	0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0,
};

static const struct md sha1_md = { SHA1_BLOCK, SHA1_DIGEST, sha1_iv };

#endif
