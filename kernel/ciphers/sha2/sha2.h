/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-256 and SHA-512 (FIPS 180-4).
 *
 * sha2.c			the table; what all tiers share is ../merkle.h's
 * sha256_TIER.c, sha512_TIER.c	blocks
 * sha2_generic.h		the template of the generic tiers
 * sha512_simd.h		the template of SHA-512's SIMD tiers
 * two_blocks.h			what those have in common with SHA-256's: messages by two blocks
 * rounds.h			rounds in general registers, between those of vectors
 */
#ifndef KILN_SHA2_H
#define KILN_SHA2_H

#include "../merkle.h"

#define SHA256_BLOCK 64
#define SHA256_DIGEST 32
#define SHA512_BLOCK 128
#define SHA512_DIGEST 64

#define SHA256_ALL(F)                                                  \
	F(SHA256, sha256, generic, GENERIC, "generic", 100)            \
	F(SHA256, sha256, avx2, AVX2, "avx2", 450)                     \
	F(SHA256, sha256, sha_ni, SHA_NI, "sha-ni", 500)
#define SHA512_ALL(F)                                                  \
	F(SHA512, sha512, generic, GENERIC, "generic", 100)            \
	F(SHA512, sha512, avx2, AVX2, "avx2", 500)                     \
	F(SHA512, sha512, avx512, VAES_AVX512, "avx512", 700)
SHA256_ALL(MD_DECLARE)
SHA512_ALL(MD_DECLARE)

/* FIPS 180-4, 4.2.2 and 4.2.3 */
extern const u32 sha256_k[64];
extern const u64 sha512_k[80];

/* FIPS 180-4, 5.3.3 and 5.3.5 */
static const u32 sha256_iv[8] = {
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static const u64 sha512_iv[8] = {
	0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
	0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

static const struct md sha256_md = { SHA256_BLOCK, SHA256_DIGEST, sha256_iv };
static const struct md sha512_md = { SHA512_BLOCK, SHA512_DIGEST, sha512_iv };

#endif
