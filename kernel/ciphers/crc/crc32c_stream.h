/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* CRC-32C of one stream with SSE4.2's CRC32 instruction, for the tiers that combine streams. */
#include <immintrin.h>

#include <kiln/fpu_assert.h>

#include "crc.h"

/* The CRC is kept as 64 bits, so that the compiler does not clear the upper half each time. */
static __always_inline u64 crc_8(u64 crc, const u8 *p)
{
	return _mm_crc32_u64(crc, get_le64(p));
}

/* Adds eight bytes to each of six streams, which are @each bytes apart. */
#define SIX_STREAMS(data, each)                                               \
	c0 = crc_8(c0, data);                                                 \
	c1 = crc_8(c1, (data) + (each));                                      \
	c2 = crc_8(c2, (data) + 2 * (each));                                  \
	c3 = crc_8(c3, (data) + 3 * (each));                                  \
	c4 = crc_8(c4, (data) + 4 * (each));                                  \
	c5 = crc_8(c5, (data) + 5 * (each));

static __always_inline u32 one_stream(u32 before, const u8 *data, size_t len)
{
	u64 wide = before;
	u32 crc;

	for (; len >= 8; len -= 8, data += 8)
		wide = crc_8(wide, data);
	crc = (u32)wide;
	if (len & 4) {
		crc = _mm_crc32_u32(crc, get_le32(data));
		data += 4;
	}
	if (len & 2) {
		crc = _mm_crc32_u16(crc, (u16)(data[0] | data[1] << 8));
		data += 2;
	}
	if (len & 1)
		crc = _mm_crc32_u8(crc, *data);
	return crc;
}
