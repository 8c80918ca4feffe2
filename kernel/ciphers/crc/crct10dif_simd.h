/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * CRC-16/T10-DIF by folding: the template of the SIMD tiers. The including file includes one of
 * ../simd/vec_*.h first and defines
 *
 *	BY_1 ... BY_4	the MOVE_n macros for distances of one to four vectors
 *
 * and after the template
 *
 *	load_first(p, n)	loads the n < VBYTES bytes at @p like LOAD(), with zeros before
 *			them; at least SHORT_BYTES bytes can be read at @p
 *	put_crc(crc, n)	returns @crc at the position of the first two of those n bytes, n > 1, to
 *			be XORed into them
 *	sum_last(v)	moves all lanes to the last one and adds them
 *	CRC_ENTRIES(crct10dif, tier, add_bytes)
 */

#include <kiln/fpu_assert.h>

#include "crct10dif_short.h"
#include "fold.h"

/*
 * Initialisers of struct move. To move 16 bytes by D bytes, the lower half is multiplied by x^(8D)
 * mod P and the upper half by x^(8D + 64) mod P.
 */
#define MOVE_16 { 0xa010, 0x1faa }
#define MOVE_32 { 0x857d, 0x7acc }
#define MOVE_48 { 0x84da, 0x4a84 }
#define MOVE_64 { 0x1069, 0xdd31 }
#define MOVE_128 { 0x6123, 0x2295 }
#define MOVE_192 { 0xb9d2, 0x6086 }
#define MOVE_256 { 0x22c6, 0x9f16 }

/* Reverses the byte order in each lane, so that the first byte is on top. */
#define REVERSE(v) v_shuffle(v, v_all(_mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f)))
#define LOAD(p) REVERSE(v_load(p))

static __always_inline vec_t load_first(const u8 *p, size_t n);
static __always_inline vec_t put_crc(u32 crc, size_t n);
#ifndef sum_last
static __always_inline __m128i sum_last(vec_t v);
#endif

/* Processes more than SHORT_BYTES bytes. If @crc is not zero, @len % VBYTES must not be 1. */
static noinline u32 long_message(u32 crc, const u8 *data, size_t len)
{
	static const struct move by_1 = BY_1, by_2 = BY_2, by_3 = BY_3, by_4 = BY_4;
	size_t first = len % VBYTES;
	vec_t v;

	if (first) {
		v = load_first(data, first);
	} else {
		first = VBYTES;
		v = LOAD(data);
	}
	/* @crc is usually zero, because most messages are in one piece. */
	if (crc)
		v = v_xor(v, put_crc(crc, first));
	data += first;
	len -= first;

	if (len >= 7 * VBYTES) {
		const vec_t by = wide(&by_4);
		vec_t v1 = LOAD(data), v2 = LOAD(data + VBYTES);
		vec_t v3 = LOAD(data + 2 * VBYTES);

		data += 3 * VBYTES;
		len -= 3 * VBYTES;
		do {
			v = fold(v, by, LOAD(data));
			v1 = fold(v1, by, LOAD(data + VBYTES));
			v2 = fold(v2, by, LOAD(data + 2 * VBYTES));
			v3 = fold(v3, by, LOAD(data + 3 * VBYTES));
			data += 4 * VBYTES;
			len -= 4 * VBYTES;
		} while (len >= 4 * VBYTES);
		v = fold(v, wide(&by_3), fold(v1, wide(&by_2), v3));
		v = fold(v2, wide(&by_1), v);
	}
	for (; len; len -= VBYTES, data += VBYTES)
		v = fold(v, wide(&by_1), LOAD(data));
	crc = reduce(sum_last(v));
	v_end();
	return crc;
}

/*
 * Processes the first byte by table look-up. Otherwise the first vector would contain only one
 * byte, but the 16-bit CRC is added to two bytes.
 */
static noinline u32 odd_message(u32 crc, const u8 *data, size_t len)
{
	return long_message(crct10dif_byte(crc, *data), data + 1, len - 1);
}

static __always_inline u32 add_bytes(u32 crc, const u8 *data, size_t len)
{
	assert_fpu_section();
	if (unlikely(len > SHORT_BYTES)) {
		if (crc && unlikely(len % VBYTES == 1))
			return odd_message(crc, data, len);
		return long_message(crc, data, len);
	}
	return short_message(crc, data, len);
}
