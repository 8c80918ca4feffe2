/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* AES-CMAC (NIST SP 800-38B, RFC 4493). */
#ifndef KILN_CMAC_H
#define KILN_CMAC_H

#include <kiln/cipher.h>

#include "../aes/aes.h"
#include "../tiers.h"

/* @sub[0] is added to a full last block, @sub[1] to a padded one. */
struct cmac_key {
	struct aes_key aes;
	u8 sub[2][AES_BLOCK_SIZE] __aligned(16);
};

/* The buffer may hold a full block, because that block may be the last one of the message. */
struct cmac_state {
	u8 acc[AES_BLOCK_SIZE];
	u8 buffer[AES_BLOCK_SIZE];
	u64 kept;
};

/* Declares a tier's functions for a whole message and for several messages. */
#define CMAC_DECLARE(name, ...)                                                               \
	void cmac_digest_##name(const void *ctx, const u8 *data, size_t len, u8 *out);        \
	kiln_finish_many_t cmac_finish_many_##name;
AES_SIMD(CMAC_DECLARE)

#endif
