/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-256 (FIPS 180-4).
 *
 * sha256.c		what all tiers share: padding, pieces, the table
 * generic_sha256.c, ..._TIER.c	blocks
 */
#ifndef KILN_SHA256_H
#define KILN_SHA256_H

#include <kiln/types.h>

#define SHA256_BLOCK_SIZE 64
#define SHA256_DIGEST_SIZE 32

struct sha256_state {
	u32 h[8];
	u64 bytes;			/* hashed and kept back */
	u8 buffer[SHA256_BLOCK_SIZE];	/* the last bytes % 64 of them */
};

/* The rounds of @blocks blocks. */
typedef void sha256_blocks_t(u32 h[8], const u8 *data, size_t blocks);

sha256_blocks_t sha256_blocks_generic;

/* FIPS 180-4, 4.2.2 */
extern const u32 sha256_k[64];

#endif
