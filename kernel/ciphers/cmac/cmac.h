/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* AES-CMAC (NIST SP 800-38B, RFC 4493). */
#ifndef KILN_CMAC_H
#define KILN_CMAC_H

#include "../aes/aes.h"

/* @sub: what is added to a last block that is full, and to one that was filled. */
struct cmac_key {
	struct aes_key aes;
	u8 sub[2][AES_BLOCK_SIZE] __aligned(16);
};

typedef void cmac_digest_t(const struct cmac_key *key, const u8 *data, size_t len, u8 *out);

cmac_digest_t cmac_digest_aesni;
cmac_digest_t cmac_digest_vaes_avx2;
cmac_digest_t cmac_digest_vaes_avx512;

#endif
