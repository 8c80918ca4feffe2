/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * CRC-32C with SSE4.2's CRC32 instruction, in one stream, or in six streams that PCLMULQDQ
 * combines.
 *
 * The instruction has a latency of three cycles, and one or two can start per cycle, so six streams
 * are enough for every CPU. A message is divided into parts of a few fixed lengths, so that the
 * powers of x that move a stream's CRC to the end of its part are constants.
 */
#include "crc32c_stream.h"

static __always_inline u32 add_stream(u32 crc, const u8 *data, size_t len)
{
	assert_fpu_section();
	return one_stream(crc, data, len);
}

CRC_ENTRIES(crc32c, sse42, add_stream)

/* A part of a message, consisting of six streams of @each bytes. */
struct part {
	u32 each;
	/*
	 * For each stream but the last: x^(8 * m - 33) mod P with the bits in reverse order, where
	 * m is the number of bytes after the stream. The exponent is 33 less than 8 * m because the
	 * product of two bit-reversed polynomials is one bit short, and because the CRC32
	 * instruction multiplies by x^32.
	 */
	u32 to_end[5];
};

static const struct part parts[] = {
	{ 680, { 0x3f11b791, 0x5aa1f3cf, 0xae1175c2, 0x3f70cc6f, 0xe417f38a } },
	{ 168, { 0xd8d26619, 0xcec3662e, 0x4e36f0b0, 0xa60ce07b, 0x1b3d8f29 } },
	{ 32, { 0x878a92a7, 0x0d3b6092, 0x0715ce53, 0x9e4addf8, 0xba4fc28e } },
};

static __always_inline __m128i move(u64 crc, u32 to)
{
	return _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc),
				    _mm_cvtsi32_si128((int)to), 0);
}

static __always_inline u32 six_streams(u32 crc, const u8 *data, const struct part *part,
				       const u32 each)
{
	u64 c0 = crc, c1 = 0, c2 = 0, c3 = 0, c4 = 0, c5 = 0;
	u32 i;
	__m128i sum;

	for (i = 0; i < each; i += 8) {
		SIX_STREAMS(data + i, each)
	}
	sum = _mm_xor_si128(_mm_xor_si128(move(c0, part->to_end[0]),
					  move(c1, part->to_end[1])),
			    _mm_xor_si128(move(c2, part->to_end[2]),
					  move(c3, part->to_end[3])));
	sum = _mm_xor_si128(sum, move(c4, part->to_end[4]));
	return (u32)(c5 ^ _mm_crc32_u64(0, (u64)_mm_cvtsi128_si64(sum)));
}

/* Processes a message that has at least six streams of 32 bytes. */
static noinline u32 long_message(u32 crc, const u8 *data, size_t len)
{
#define PARTS(n, each)                                                        \
	for (; len >= 6 * each; len -= 6 * each, data += 6 * each)            \
		crc = six_streams(crc, data, &parts[n], each)
	PARTS(0, 680);
	PARTS(1, 168);
	PARTS(2, 32);
#undef PARTS
	return one_stream(crc, data, len);
}

static __always_inline u32 add_bytes(u32 crc, const u8 *data, size_t len)
{
	assert_fpu_section();
	if (unlikely(len >= 6 * 32))
		return long_message(crc, data, len);
	return one_stream(crc, data, len);
}

CRC_ENTRIES(crc32c, pclmul, add_bytes)
