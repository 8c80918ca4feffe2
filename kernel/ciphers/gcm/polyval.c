// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* POLYVAL in general registers, in constant time: keys, and blocks where there is no SIMD. */
#include "polyval.h"

#include <kiln/string.h>
#include <kiln/unaligned.h>

typedef unsigned __int128 u128;

struct element {
	u64 lo, hi;
};

/*
 * Carryless product by integer multiplication: of bits four places apart so few meet in one
 * place that their count stays below the next place's. 16 times 16 would be one too many, so
 * the first factor gives 15, and its top four bits are multiplied by shifts.
 */
static __always_inline u128 clmul(u64 a, u64 b)
{
	const u64 every4th = 0x1111111111111111;
	const u128 all = (u128)every4th << 64 | every4th;
	const u64 a0 = a & every4th >> 4, a1 = a & every4th >> 4 << 1;
	const u64 a2 = a & every4th >> 4 << 2, a3 = a & every4th >> 4 << 3;
	const u64 b0 = b & every4th, b1 = b & every4th << 1;
	const u64 b2 = b & every4th << 2, b3 = b & every4th << 3;
	u128 sum = ((u128)a0 * b0 ^ (u128)a1 * b3 ^ (u128)a2 * b2 ^ (u128)a3 * b1) & all;
	int i;

	sum |= ((u128)a0 * b1 ^ (u128)a1 * b0 ^ (u128)a2 * b3 ^ (u128)a3 * b2) & all << 1;
	sum |= ((u128)a0 * b2 ^ (u128)a1 * b1 ^ (u128)a2 * b0 ^ (u128)a3 * b3) & all << 2;
	sum |= ((u128)a0 * b3 ^ (u128)a1 * b2 ^ (u128)a2 * b1 ^ (u128)a3 * b0) & all << 3;
	for (i = 60; i < 64; i++)
		sum ^= (u128)(b & -(a >> i & 1)) << i;
	return sum;
}

/* What is added to the words above @v when it is taken away modulo the polynomial. */
static __always_inline u128 fold(u64 v)
{
	const u128 w = v;

	return w << 57 ^ w << 62 ^ w << 63;
}

static __always_inline struct element multiply(struct element a, struct element b)
{
	u128 lo = clmul(a.lo, b.lo), hi = clmul(a.hi, b.hi);
	u128 mid = clmul(a.lo ^ a.hi, b.lo ^ b.hi) ^ lo ^ hi;

	/* Each step divides by x^64: the halves change places, the fold comes in. */
	mid ^= lo >> 64 ^ (u128)(u64)lo << 64 ^ fold(lo);
	hi ^= mid >> 64 ^ (u128)(u64)mid << 64 ^ fold(mid);
	return (struct element){ .lo = hi, .hi = hi >> 64 };
}

static void powers(struct polyval_key *key, struct element h)
{
	struct element p = h;
	int i;

	memset(key, 0, sizeof(*key));
	for (i = POLYVAL_POWERS; i--; p = multiply(p, h)) {
		key->power[i][0] = p.lo;
		key->power[i][1] = p.hi;
		key->halves[i][0] = key->halves[i][1] = p.lo ^ p.hi;
	}
}

void polyval_setkey(struct polyval_key *key, const u8 raw[POLYVAL_BLOCK_SIZE])
{
	powers(key, (struct element){ .lo = get_le64(raw), .hi = get_le64(raw + 8) });
}

void ghash_setkey(struct polyval_key *key, const u8 raw[POLYVAL_BLOCK_SIZE])
{
	const u64 hi = __builtin_bswap64(get_le64(raw));
	const u64 lo = __builtin_bswap64(get_le64(raw + 8));
	const u64 carry = -(hi >> 63);

	/* Times x. */
	powers(key, (struct element){
		.lo = lo << 1 ^ (carry & 1),
		.hi = (hi << 1 | lo >> 63) ^ (carry & 0xc200000000000000),
	});
}

void polyval_blocks_generic(const struct polyval_key *key, u64 acc[2], const u8 *data,
			    size_t blocks, bool ghash)
{
	const struct element h = {
		.lo = key->power[POLYVAL_POWERS - 1][0],
		.hi = key->power[POLYVAL_POWERS - 1][1],
	};
	struct element a = { .lo = acc[0], .hi = acc[1] };

	for (; blocks; blocks--, data += POLYVAL_BLOCK_SIZE) {
		const u64 first = get_le64(data), second = get_le64(data + 8);

		a.lo ^= ghash ? __builtin_bswap64(second) : first;
		a.hi ^= ghash ? __builtin_bswap64(first) : second;
		a = multiply(a, h);
	}
	acc[0] = a.lo;
	acc[1] = a.hi;
}
