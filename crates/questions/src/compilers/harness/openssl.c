// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * AES in CBC mode, with the calling convention of the low-level functions in OpenSSL and LibreSSL:
 *
 *	int AES_set_encrypt_key(const unsigned char *key, int bits, AES_KEY *key);
 *	void AES_encrypt(const unsigned char *in, unsigned char *out, const AES_KEY *key);
 */
#include <string.h>

#include "harness.h"

extern int AES_set_encrypt_key(const unsigned char *user, int bits, void *key);
extern void AES_encrypt(const unsigned char *in, unsigned char *out, const void *key);

/* Holds an AES_KEY, which is 244 bytes long. */
static uint64_t cell_context[64] __attribute__((aligned(64)));

static int cell_setkey(const uint8_t *key, size_t len)
{
	return AES_set_encrypt_key(key, (int)len * 8, cell_context);
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
		AES_encrypt((const uint8_t *)chain, (uint8_t *)chain, cell_context);
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
