/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The blocks that RFC 3610 puts before a message's text, and the comparison of the tag. */
#ifndef KILN_CCM_BLOCKS_H
#define KILN_CCM_BLOCKS_H

#include <kiln/string.h>
#include <kiln/unaligned.h>

#include "../verdict.h"
#include "ccm.h"

/*
 * Writes a block as two 64-bit words. Code that reads it immediately must use load_halves(): a load
 * of 16 bytes needs both stores, cannot use store forwarding, and waits until both have reached the
 * cache.
 */
static __always_inline void put_block(u8 *p, u64 first, u64 second)
{
	put_le64(first, p);
	put_le64(second, p + 8);
}

/*
 * Returns a mask of the bytes in an IV's second word that hold the message length or the block
 * number.
 */
static __always_inline u64 number_mask(const u8 *iv)
{
	return ~0ull << 8 * (7 - (iv[0] & 7));
}

/* Makes the counter blocks for the tag and for the first block of text (RFC 3610, 2.3). */
static __always_inline void counters(u8 *a0, u8 *a1, const u8 *iv)
{
	const u64 first = get_le64(iv) & ~0xf8ull;
	const u64 second = get_le64(iv + 8) & ~number_mask(iv);

	put_block(a0, first, second);
	put_block(a1, first, second | 1ull << 56);
}

/* Makes the first block of the MAC (RFC 3610, 2.2). */
static __always_inline void first_block(u8 *b0, const u8 *iv, size_t aadlen, size_t len,
					size_t tagsize)
{
	const u64 flags = (aadlen ? 64 : 0) | (tagsize - 2) / 2 << 3;
	const u64 mask = number_mask(iv);

	put_block(b0, (get_le64(iv) & ~0xf8ull) | flags,
		  (get_le64(iv + 8) & ~mask) | (__builtin_bswap64(len) & mask));
}

/* Loads the eight bytes at offset @at of @p. Bytes from offset @len on read as zero. */
static __always_inline u64 word(const u8 *p, size_t len, size_t at)
{
	u64 w = 0;

	if (at >= len)
		return 0;
	if (len - at >= 8)
		return get_le64(p + at);
	if (len >= 8)
		return get_le64(p + len - 8) >> 8 * (8 - (len - at));
	while (len > at)
		w = w << 8 | p[--len];
	return w;
}

/* Encodes the length of the associated data at @p. Returns the number of bytes written. */
static inline size_t aad_length(u8 *p, size_t aadlen)
{
	size_t n = 0, bytes;

	if (!aadlen)
		return 0;
	if (aadlen < 0xff00) {
		bytes = 2;
	} else {
		bytes = aadlen >> 32 ? 8 : 4;
		p[n++] = 0xff;
		p[n++] = bytes == 8 ? 0xff : 0xfe;
	}
	while (bytes--)
		p[n++] = aadlen >> 8 * bytes;
	return n;
}

/*
 * Writes all blocks of the MAC that precede the text, for @aadlen below 0xff00: the first block,
 * and the associated data, preceded by its length and padded with zeros. Returns the number of
 * blocks.
 */
static __always_inline size_t first_blocks(u8 *p, const u8 *iv, const u8 *aad, size_t aadlen,
					   size_t len, size_t tagsize)
{
	const u64 bytes = aadlen << 8 | aadlen >> 8;
	size_t n = 2, at;

	first_block(p, iv, aadlen, len, tagsize);
	if (!aadlen)
		return 1;
	put_block(p + AES_BLOCK_SIZE, (bytes & 0xffff) | word(aad, aadlen, 0) << 16,
		  word(aad, aadlen, 6));
	for (at = 14; at < aadlen; at += AES_BLOCK_SIZE, n++) {
		put_block(p + n * AES_BLOCK_SIZE, word(aad, aadlen, at), word(aad, aadlen, at + 8));
		/*
		 * Keeps compilers from vectorising the loop with gathers, which are not known to
		 * take the same time for all operands.
		 */
		barrier();
	}
	return n;
}

/*
 * Compares the computed tag, @have, with the message's tag. Wipes @have and, if the tags differ,
 * also the text at @dst.
 */
static inline int verdict(u8 *have, const u8 *tag, size_t tagsize, u8 *dst, size_t len)
{
	const u8 differ = secrets_differ(have, tag, tagsize);

	memzero_explicit(have, AES_BLOCK_SIZE);
	if (!tag_is_wrong(differ))
		return 0;
	memzero_explicit(dst, len);
	return -EBADMSG;
}

#endif
