/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-256 and SHA-512 (FIPS 180-4).
 *
 * sha2.c			the table of implementations; shared code is in ../merkle.h
 * sha256_TIER.c, sha512_TIER.c	compression of blocks
 * sha2_generic.h		the template for the generic tiers
 * sha256_simd.h, sha512_simd.h	the templates for the SIMD tiers
 * sha2_lanes.h			the template for hashing several messages at a time
 * two_blocks.h			two blocks per pass, for SIMD tiers of both hashes
 * rounds.h			rounds in general-purpose registers, between vector operations
 */
#ifndef KILN_SHA2_H
#define KILN_SHA2_H

#include "../merkle.h"

#define SHA256_BLOCK 64
#define SHA256_DIGEST 32
#define SHA512_BLOCK 128
#define SHA512_DIGEST 64

#define SHA256_ALL(F)                                                  \
	F(SHA256, sha256, generic, GENERIC, "generic", 100, 0)         \
	F(SHA256, sha256, avx2, AVX2, "avx2", 450, 8)                  \
	F(SHA256, sha256, avx512, VAES_AVX512, "avx512", 460, 16)      \
	F(SHA256, sha256, sha_ni, SHA_NI, "sha-ni", 500, 2)
#define SHA512_ALL(F)                                                  \
	F(SHA512, sha512, generic, GENERIC, "generic", 100, 0)         \
	F(SHA512, sha512, avx2, AVX2, "avx2", 500, 4)                  \
	F(SHA512, sha512, avx512, VAES_AVX512, "avx512", 700, 8)
SHA256_ALL(MD_DECLARE)
SHA512_ALL(MD_DECLARE)

/*
 * The constants of SHA-512's first 64 rounds. Their upper halves are the constants of SHA-256.
 */
#define SHA2_K(F) \
	F(0x428a2f98d728ae22) F(0x7137449123ef65cd) F(0xb5c0fbcfec4d3b2f) F(0xe9b5dba58189dbbc) \
	F(0x3956c25bf348b538) F(0x59f111f1b605d019) F(0x923f82a4af194f9b) F(0xab1c5ed5da6d8118) \
	F(0xd807aa98a3030242) F(0x12835b0145706fbe) F(0x243185be4ee4b28c) F(0x550c7dc3d5ffb4e2) \
	F(0x72be5d74f27b896f) F(0x80deb1fe3b1696b1) F(0x9bdc06a725c71235) F(0xc19bf174cf692694) \
	F(0xe49b69c19ef14ad2) F(0xefbe4786384f25e3) F(0x0fc19dc68b8cd5b5) F(0x240ca1cc77ac9c65) \
	F(0x2de92c6f592b0275) F(0x4a7484aa6ea6e483) F(0x5cb0a9dcbd41fbd4) F(0x76f988da831153b5) \
	F(0x983e5152ee66dfab) F(0xa831c66d2db43210) F(0xb00327c898fb213f) F(0xbf597fc7beef0ee4) \
	F(0xc6e00bf33da88fc2) F(0xd5a79147930aa725) F(0x06ca6351e003826f) F(0x142929670a0e6e70) \
	F(0x27b70a8546d22ffc) F(0x2e1b21385c26c926) F(0x4d2c6dfc5ac42aed) F(0x53380d139d95b3df) \
	F(0x650a73548baf63de) F(0x766a0abb3c77b2a8) F(0x81c2c92e47edaee6) F(0x92722c851482353b) \
	F(0xa2bfe8a14cf10364) F(0xa81a664bbc423001) F(0xc24b8b70d0f89791) F(0xc76c51a30654be30) \
	F(0xd192e819d6ef5218) F(0xd69906245565a910) F(0xf40e35855771202a) F(0x106aa07032bbd1b8) \
	F(0x19a4c116b8d2d0c8) F(0x1e376c085141ab53) F(0x2748774cdf8eeb99) F(0x34b0bcb5e19b48a8) \
	F(0x391c0cb3c5c95a63) F(0x4ed8aa4ae3418acb) F(0x5b9cca4f7763e373) F(0x682e6ff3d6b2b8a3) \
	F(0x748f82ee5defb2fc) F(0x78a5636f43172f60) F(0x84c87814a1f0ab72) F(0x8cc702081a6439ec) \
	F(0x90befffa23631e28) F(0xa4506cebde82bde9) F(0xbef9a3f7b2c67915) F(0xc67178f2e372532b)
extern const u32 sha256_k[64];
extern const u64 sha512_k[80];

/* The initial hash values (FIPS 180-4, 5.3.3 and 5.3.5). */
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
