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

void chacha_crypt_generic(const struct chacha_key *key, u8 *dst, const u8 *src, size_t len,
			  const u8 iv[CHACHA_IV_SIZE])
{
	u8 stream[CHACHA_BLOCK_SIZE] __aligned(16);
	u32 counter = get_le32(iv);

	while (len) {
		const size_t n = len < sizeof(stream) ? len : sizeof(stream);

		chacha_block_scalar(key, counter++, iv, stream);
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
	chacha_block_scalar(key, get_le32(iv), iv, block);
}

void chacha_start_generic(const struct chacha_key *key, u8 block[CHACHA_BLOCK_SIZE],
			  u8 *dst, const u8 *src, size_t len, const u8 iv[CHACHA_IV_SIZE])
{
	u8 next[CHACHA_IV_SIZE];

	chacha_block_scalar(key, get_le32(iv), iv, block);
	memcpy(next, iv, sizeof(next));
	put_le32(get_le32(iv) + 1, next);
	chacha_crypt_generic(key, dst, src, len, next);
}

void chacha_stream_generic(const struct chacha_key *key, u8 block[CHACHA_BLOCK_SIZE], u8 *dst,
			   size_t len, const u8 iv[CHACHA_IV_SIZE])
{
	u32 counter = get_le32(iv);

	chacha_block_scalar(key, counter++, iv, block);
	for (; len; len -= len < 64 ? len : 64, dst += 64)
		chacha_block_scalar(key, counter++, iv, dst);
}
