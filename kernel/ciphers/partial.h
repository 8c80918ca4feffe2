/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Buffers a partial block of a message that arrives in pieces. */
#ifndef KILN_CIPHERS_PARTIAL_H
#define KILN_CIPHERS_PARTIAL_H

#include <kiln/string.h>
#include <kiln/types.h>

/*
 * Copies bytes from @data to @buffer until @buffer holds a block of @block bytes or @data is used
 * up. @kept is the number of bytes in @buffer. Advances @data and @len. Returns whether the block
 * is full.
 */
static __always_inline bool fill_block(u8 *buffer, u64 *kept, const size_t block,
				       const u8 **data, size_t *len)
{
	size_t n = block - *kept;

	n = n < *len ? n : *len;
	memcpy(buffer + *kept, *data, n);
	*kept += n;
	*data += n;
	*len -= n;
	return *kept >= block;
}

#endif
