// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* ChaCha20 in general-purpose registers. */
#include <kiln/string.h>

#include "chacha_scalar.h"

void chacha_xor_generic(u8 *dst, const u8 *src, const u8 *with, size_t len)
{
	size_t i;

	for (i = 0; i + 8 <= len; i += 8)
		put_le64(get_le64(src + i) ^ get_le64(with + i), dst + i);
	for (; i < len; i++)
		dst[i] = src[i] ^ with[i];
}

void chacha_wipe_generic(u8 *p, size_t len)
{
	memzero_explicit(p, (len + 63) & ~(size_t)63);
}

void chacha_crypt_generic(const struct chacha_key *key, u8 *dst, const u8 *src, size_t len,
			  const u8 iv[CHACHA_IV_SIZE])
{
	u8 stream[CHACHA_BLOCK_SIZE] __aligned(16);
	u32 counter = get_le32(iv);

	while (len) {
		const size_t n = len < sizeof(stream) ? len : sizeof(stream);

		chacha_block_scalar(key, counter++, iv + 4, stream);
		chacha_xor_generic(dst, src, stream, n);
		dst += n;
		src += n;
		len -= n;
	}
	memzero_explicit(stream, sizeof(stream));
}

void chacha_block_generic(const struct chacha_key *key, u8 block[CHACHA_BLOCK_SIZE],
			  const u8 iv[CHACHA_IV_SIZE])
{
	chacha_block_scalar(key, get_le32(iv), iv + 4, block);
}

static void start_mac(const struct chacha_key *key, struct poly1305_key *mac,
		      const u8 nonce[CHACHA_NONCE_SIZE])
{
	CHACHA_WORDS(key, 0, nonce);
	int i;

	for (i = 0; i < 10; i++) {
		CHACHA_COLUMNS;
		CHACHA_DIAGONALS;
	}
	CHACHA_MAC_KEY(mac);
}

/* Hashing in general-purpose registers uses no powers of r, so @hashed is not used. */
void chacha_start_generic(const struct chacha_key *key, struct poly1305_key *mac,
			  size_t hashed __maybe_unused, u8 *dst, const u8 *src, size_t len,
			  const u8 nonce[CHACHA_NONCE_SIZE])
{
	u8 iv[CHACHA_IV_SIZE];

	start_mac(key, mac, nonce);
	put_le32(1, iv);
	memcpy(iv + 4, nonce, CHACHA_NONCE_SIZE);
	chacha_crypt_generic(key, dst, src, len, iv);
}

void chacha_stream_generic(const struct chacha_key *key, struct poly1305_key *mac,
			   size_t hashed __maybe_unused, u8 *dst, size_t len,
			   const u8 nonce[CHACHA_NONCE_SIZE])
{
	u32 counter = 1;

	start_mac(key, mac, nonce);
	for (; len; len -= len < 64 ? len : 64, dst += 64)
		chacha_block_scalar(key, counter++, nonce, dst);
}
