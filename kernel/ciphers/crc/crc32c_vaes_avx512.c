/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * CRC-32C with VPCLMULQDQ on 512-bit vectors and, in parallel, SSE4.2's CRC32 instruction.
 *
 * Folding takes two multiplications per 64 bytes, so it processes 16 bytes per cycle if one
 * multiplication can start every other cycle. Meanwhile, the CRC32 instruction processes another 8
 * or 16 bytes per cycle in general-purpose registers. A part of a message begins with six streams
 * for that instruction. They are followed by the bytes for the four vector accumulators, eight
 * times as many as in one stream. The first fold of a part moves the accumulators over the streams.
 * The CRCs of the streams are moved to the end of the part and added there.
 */
#include "../simd/vec_zmm.h"
#include "crc32c_stream.h"
#include "fold.h"

/*
 * Initialisers of struct move. To move 16 bytes by D bytes, the lower half is multiplied by x^(8D +
 * 63) mod P and the upper half by x^(8D - 1) mod P, with the bits in reverse order. The exponents
 * are one less than 8D + 64 and 8D, because a product of bit-reversed polynomials is one bit short.
 */

#define MOVE_16 { 0x3743f7bd00000000, 0x3171d43000000000 }
#define MOVE_32 { 0x33ccbbbc00000000, 0xa2158b3400000000 }
#define MOVE_48 { 0xa46ef4aa00000000, 0x6051243f00000000 }

static const struct move by_64 = { 0x1c19243b00000000, 0x75bba45b00000000 };
static const struct move by_128 = { 0x6577b24500000000, 0x7417153f00000000 };
static const struct move by_192 = { 0x7ccbbbf200000000, 0x31c9460800000000 };
static const struct move by_256 = { 0xe9a5d8be00000000, 0x1426a81500000000 };
/*
 * Multipliers that move each lane of a vector to the last lane. The last lane is not multiplied.
 */
static const struct move to_last[4] __aligned(64) = { MOVE_48, MOVE_32, MOVE_16 };

/* A part: six streams of 32 * @steps bytes, then 256 * @steps bytes for the vectors. */
struct part {
	struct move over;	/* moves by the length of the streams plus 256 bytes */
	u64 to_end[6];		/* per stream: multiplier that moves its CRC to the last vector */
};

#define LONG_STEPS 9
#define SHORT_STEPS 2
#define PART_BYTES(steps) (448u * (steps))

static const struct part long_part = {
	{ 0x8d5780cd00000000, 0x6ea0c6bd00000000 },
	{ 0x4352cd5900000000, 0x4a275b6d00000000, 0x2a84accc00000000,
	  0x2a0ebfc900000000, 0x800aacb800000000, 0x1b8d973300000000 },
};

static const struct part short_part = {
	{ 0x6b1caedb00000000, 0x6d3e926f00000000 },
	{ 0x784d05fe00000000, 0x0783ad1700000000, 0x6b1caedb00000000,
	  0xb9b0341700000000, 0x75bda45400000000, 0x06d5315100000000 },
};

static __always_inline u32 reduce(vec_t v)
{
	const __m128i sum = sum_lanes(v, _mm512_load_si512(to_last));

	return (u32)_mm_crc32_u64(_mm_crc32_u64(0, (u64)_mm_cvtsi128_si64(sum)),
				  (u64)_mm_extract_epi64(sum, 1));
}

struct acc {
	vec_t v0, v1, v2, v3;
};

/* Moves the four accumulators by 256 bytes and adds the next four vectors. */
static __always_inline void fold_256(struct acc *a, vec_t by, const u8 *p)
{
	a->v0 = fold(a->v0, by, v_load(p));
	a->v1 = fold(a->v1, by, v_load(p + 64));
	a->v2 = fold(a->v2, by, v_load(p + 128));
	a->v3 = fold(a->v3, by, v_load(p + 192));
}

static __always_inline __m128i move_crc(u64 crc, u64 by)
{
	return _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc),
				    _mm_cvtsi64_si128((long long)by), 0);
}

/*
 * Adds one part. For the first part, @crc is the CRC of the bytes before it and @a is initialised;
 * otherwise @a already covers those bytes and @crc is 0.
 */
static __always_inline void add_part(struct acc *a, const bool first, u32 crc, const u8 *data,
				     const struct part *part, const u32 steps)
{
	const u32 each = 32 * steps;
	const u8 *v = data + 6 * each;
	const vec_t by = wide(&by_256);
	u64 c0 = crc, c1 = 0, c2 = 0, c3 = 0, c4 = 0, c5 = 0;
	u32 i;
	__m128i sum;

#define STEP                                                                  \
	SIX_STREAMS(data, each) SIX_STREAMS(data + 8, each)                   \
	SIX_STREAMS(data + 16, each) SIX_STREAMS(data + 24, each)
	if (first)
		*a = (struct acc){ v_load(v), v_load(v + 64), v_load(v + 128), v_load(v + 192) };
	else
		fold_256(a, wide(&part->over), v);
	STEP
	for (i = 1; i < steps; i++) {
		data += 32;
		v += 256;
		fold_256(a, by, v);
		STEP
	}
#undef STEP
	sum = _mm_xor_si128(_mm_xor_si128(move_crc(c0, part->to_end[0]),
					  move_crc(c1, part->to_end[1])),
			    _mm_xor_si128(move_crc(c2, part->to_end[2]),
					  move_crc(c3, part->to_end[3])));
	sum = _mm_xor_si128(sum, _mm_xor_si128(move_crc(c4, part->to_end[4]),
					       move_crc(c5, part->to_end[5])));
	a->v3 = _mm512_xor_si512(a->v3, _mm512_zextsi128_si512(sum));
}

/* Processes a message of at least 256 bytes. */
static noinline u32 long_message(u32 crc, const u8 *data, size_t len)
{
	struct acc a;
	vec_t v;

	if (len >= PART_BYTES(LONG_STEPS)) {
		add_part(&a, true, crc, data, &long_part, LONG_STEPS);
		data += PART_BYTES(LONG_STEPS);
		len -= PART_BYTES(LONG_STEPS);
		while (len >= PART_BYTES(LONG_STEPS)) {
			add_part(&a, false, 0, data, &long_part, LONG_STEPS);
			data += PART_BYTES(LONG_STEPS);
			len -= PART_BYTES(LONG_STEPS);
		}
	} else if (len >= PART_BYTES(SHORT_STEPS)) {
		add_part(&a, true, crc, data, &short_part, SHORT_STEPS);
		data += PART_BYTES(SHORT_STEPS);
		len -= PART_BYTES(SHORT_STEPS);
	} else {
		a = (struct acc){ v_load(data), v_load(data + 64), v_load(data + 128),
				  v_load(data + 192) };
		a.v0 = _mm512_xor_si512(a.v0,
					_mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
		data += 256;
		len -= 256;
	}
	while (len >= PART_BYTES(SHORT_STEPS)) {
		add_part(&a, false, 0, data, &short_part, SHORT_STEPS);
		data += PART_BYTES(SHORT_STEPS);
		len -= PART_BYTES(SHORT_STEPS);
	}
	for (; len >= 256; len -= 256, data += 256)
		fold_256(&a, wide(&by_256), data);
	v = fold(a.v0, wide(&by_192), fold(a.v1, wide(&by_128), a.v3));
	v = fold(a.v2, wide(&by_64), v);
	for (; len >= 64; len -= 64, data += 64)
		v = fold(v, wide(&by_64), v_load(data));
	crc = one_stream(reduce(v), data, len);
	_mm256_zeroupper();
	return crc;
}

static __always_inline u32 add_bytes(u32 crc, const u8 *data, size_t len)
{
	assert_fpu_section();
	if (unlikely(len >= 256))
		return long_message(crc, data, len);
	return one_stream(crc, data, len);
}

CRC_UPDATE(crc32c, avx512, add_bytes)

/*
 * Processes a whole message of at least 256 bytes and less than PART_BYTES(SHORT_STEPS). 256 bytes
 * take 25 cycles (Zen 4, gcc 12). Calling long_message() instead, which also saves the registers
 * that add_part() needs, would add about a tenth to that time.
 */
static noinline void digest_vectors(const u8 *data, size_t len, u8 *out)
{
	struct acc a = { v_load(data), v_load(data + 64), v_load(data + 128),
			 v_load(data + 192) };
	vec_t v;

	a.v0 = _mm512_xor_si512(a.v0,
				_mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc32c_seed)));
	data += 256;
	len -= 256;
	for (; len >= 256; len -= 256, data += 256)
		fold_256(&a, wide(&by_256), data);
	v = fold(a.v0, wide(&by_192), fold(a.v1, wide(&by_128), a.v3));
	v = fold(a.v2, wide(&by_64), v);
	for (; len >= 64; len -= 64, data += 64)
		v = fold(v, wide(&by_64), v_load(data));
	put_crc32c(one_stream(reduce(v), data, len), out);
	_mm256_zeroupper();
}

void crc32c_digest_avx512(const void *ctx __maybe_unused, const u8 *data, size_t len, u8 *out)
{
	assert_fpu_section();
	if (len < 256)
		put_crc32c(one_stream(crc32c_seed, data, len), out);
	else if (len < PART_BYTES(SHORT_STEPS))
		digest_vectors(data, len, out);
	else
		put_crc32c(long_message(crc32c_seed, data, len), out);
}
