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

/* Adds @len bytes, fewer than eight, to the CRC. */
static __always_inline u32 few_bytes(u32 crc, const u8 *data, size_t len)
{
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

/*
 * Adds the last @n bytes of a message, 0 < n < 8. They end at @end, and the eight bytes before @end
 * are all part of the message. Zeros before a message do not change a CRC of zero. The CRC so far
 * is therefore XORed into the @n bytes, which are then processed as the end of an eight-byte word.
 * If n < 4, the CRC is longer than @n bytes; the rest of the CRC is XORed afterwards.
 */
static __always_inline u32 last_bytes(u64 crc, const u8 *end, size_t n)
{
	const size_t others = 64 - 8 * n;
	const u64 x = get_le64(end - 8) >> others ^ crc;

	return (u32)(_mm_crc32_u64(0, x << others) ^ crc >> 8 * n);
}

/*
 * Limits: the CRC32 instruction has a latency of three cycles, and one can start per cycle on
 * Zen 4. The CRCs of consecutive messages overlap as long as their instructions fit in the
 * scheduler, which has about 24 entries, so a message of 64 bytes could take as little as eight
 * cycles. A call and its return add about six cycles, and each taken jump adds at least one. The
 * path for 16 bytes is therefore laid out without taken jumps.
 */
static __always_inline u32 one_stream(u32 before, const u8 *data, size_t len)
{
	u64 crc = before;

	if (likely(len < 32)) {
		if (unlikely(len < 8))
			return few_bytes(before, data, len);
		if (likely(len & 16)) {
			crc = crc_8(crc_8(crc, data), data + 8);
			data += 16;
		}
	} else {
		for (; len >= 64; len -= 64, data += 64) {
			crc = crc_8(crc_8(crc, data), data + 8);
			crc = crc_8(crc_8(crc, data + 16), data + 24);
			crc = crc_8(crc_8(crc, data + 32), data + 40);
			crc = crc_8(crc_8(crc, data + 48), data + 56);
		}
		if (len & 32) {
			crc = crc_8(crc_8(crc, data), data + 8);
			crc = crc_8(crc_8(crc, data + 16), data + 24);
			data += 32;
		}
		if (len & 16) {
			crc = crc_8(crc_8(crc, data), data + 8);
			data += 16;
		}
	}
	if (unlikely(len & 8)) {
		crc = crc_8(crc, data);
		data += 8;
	}
	if (unlikely(len & 7))
		return last_bytes(crc, data + (len & 7), len & 7);
	return (u32)crc;
}
