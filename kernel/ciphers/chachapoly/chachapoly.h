/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * ChaCha20-Poly1305 (RFC 8439, 2.8).
 *
 * chachapoly.c		messages of any length, messages in pieces, and the table of implementations
 * short.h		the template for messages of at most one block of text: TIER.c
 */
#ifndef KILN_CHACHAPOLY_H
#define KILN_CHACHAPOLY_H

#include "../chacha/chacha.h"

/* Seals a message of at most CHACHA_BLOCK_SIZE bytes. */
typedef void chachapoly_seal_t(const struct chacha_key *key, u8 *dst, const u8 *src, size_t len,
			       const u8 *aad, size_t aadlen, const u8 *nonce, u8 *tag);
/*
 * Opens a message of at most CHACHA_BLOCK_SIZE bytes. Returns whether the tag is wrong; if it is,
 * the destination is zeroed.
 */
typedef bool chachapoly_open_t(const struct chacha_key *key, u8 *dst, const u8 *src, size_t len,
			       const u8 *aad, size_t aadlen, const u8 *nonce, const u8 *tag);

#define CHACHAPOLY_DECLARE(name)                   \
	chachapoly_seal_t chachapoly_seal_##name;  \
	chachapoly_open_t chachapoly_open_##name;
CHACHAPOLY_DECLARE(aesni)
CHACHAPOLY_DECLARE(avx2)
CHACHAPOLY_DECLARE(vaes_avx512)

#endif
