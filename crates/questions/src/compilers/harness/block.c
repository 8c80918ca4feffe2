// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A cipher with 16-byte blocks, used in CBC mode (NIST SP 800-38A, 6.2) as tcrypt does:
 *
 *	int SUBJECT_SETKEY(void *ctx, const uint8_t *key, unsigned int len);
 *	void SUBJECT_FUNCTION(void *ctx, uint8_t *out, const uint8_t *in);
 *
 * The context of a kernel cipher is a struct crypto_tfm followed by the cipher's own context.
 * Ciphers do not read the struct itself, so a single buffer serves for both.
 */
#include <string.h>

#include "harness.h"

extern int SUBJECT_SETKEY(void *ctx, const uint8_t *key, unsigned int len);
extern void SUBJECT_FUNCTION(void *ctx, uint8_t *out, const uint8_t *in);

static uint64_t cell_context[512] __attribute__((aligned(64)));

static int cell_setkey(const uint8_t *key, size_t len)
{
	return SUBJECT_SETKEY(cell_context, key, (unsigned int)len);
}

static void cell_run(uint8_t *dst, const uint8_t *src, size_t len, const uint8_t *iv, uint8_t *tag)
{
	uint64_t chain[2], text[2];

	(void)tag;
	memcpy(chain, iv, 16);
	for (; len >= 16; len -= 16, src += 16, dst += 16) {
		memcpy(text, src, 16);
		chain[0] ^= text[0];
		chain[1] ^= text[1];
		SUBJECT_FUNCTION(cell_context, (uint8_t *)chain, (const uint8_t *)chain);
		memcpy(dst, chain, 16);
	}
}

const struct subject *cell_subject(void)
{
	static const struct subject s = {
		.key = 32, .iv = 16, .writes = 1, .setkey = cell_setkey, .run = cell_run,
	};

	return &s;
}
