// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Constant-time POLYVAL in general-purpose registers: key setup for all tiers, and block processing
 * in contexts where SIMD is not usable.
 */
#include "polyval.h"

#include <kiln/string.h>
#include <kiln/unaligned.h>

typedef unsigned __int128 u128;

struct element {
	u64 lo, hi;
};

/*
 * Computes a carryless product by integer multiplication. Both factors are split into parts whose
 * bits are four places apart, so that the sum at each place stays below 16 and does not carry into
 * the next used place. If the parts of both factors had 16 bits, the sum could reach 16, so each
 * part of the first factor has only 15 bits. The top four bits of that factor are multiplied with
 * shifts.
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

/* Returns the value to add to the words above @v when @v is eliminated modulo the polynomial. */
static __always_inline u128 fold(u64 v)
{
	const u128 w = v;

	return w << 57 ^ w << 62 ^ w << 63;
}

/*
 * Reduces a product, given as three sums with the weights 1, x^64 and x^128, and multiplies it by
 * x^-128. Each step divides by x^64: it exchanges the halves and adds fold() of the lower half.
 */
static __always_inline struct element reduce(u128 lo, u128 mid, u128 hi)
{
	mid ^= lo >> 64 ^ (u128)(u64)lo << 64 ^ fold(lo);
	hi ^= mid >> 64 ^ (u128)(u64)mid << 64 ^ fold(mid);
	return (struct element){ .lo = hi, .hi = hi >> 64 };
}

static __always_inline struct element multiply(struct element a, struct element b)
{
	const u128 lo = clmul(a.lo, b.lo), hi = clmul(a.hi, b.hi);

	return reduce(lo, clmul(a.lo ^ a.hi, b.lo ^ b.hi) ^ lo ^ hi, hi);
}

/* Inserts zeros between the bits: without carries, this squares the number. */
static __always_inline u64 spread(u32 v)
{
	u64 w = v;

	w = (w | w << 16) & 0x0000ffff0000ffff;
	w = (w | w << 8) & 0x00ff00ff00ff00ff;
	w = (w | w << 4) & 0x0f0f0f0f0f0f0f0f;
	w = (w | w << 2) & 0x3333333333333333;
	return (w | w << 1) & 0x5555555555555555;
}

static __always_inline struct element square(struct element a)
{
	return reduce((u128)spread(a.lo >> 32) << 64 | spread(a.lo), 0,
		      (u128)spread(a.hi >> 32) << 64 | spread(a.hi));
}

/*
 * Computes the powers of @h. Every other power is computed by squaring, which takes a fifth of the
 * time of a multiplication.
 */
static void powers(struct polyval_key *key, struct element h)
{
	struct element p = h;
	int n;

	memset(key, 0, sizeof(*key));
	for (n = 1; n <= POLYVAL_POWERS; n++) {
		const int row = POLYVAL_POWERS - n;

		if (n % 2 == 0) {
			const u64 *root = key->power[POLYVAL_POWERS - n / 2];

			p = square((struct element){ .lo = root[0], .hi = root[1] });
		} else if (n > 1) {
			p = multiply(p, h);
		}
		key->power[row][0] = p.lo;
		key->power[row][1] = p.hi;
		if (row >= POLYVAL_UPPER)
			key->halves[row - POLYVAL_UPPER][0] = p.lo ^ p.hi;
		if (row < POLYVAL_SHORT)
			key->halves[row][1] = p.lo ^ p.hi;
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

	/* GHASH's key must be multiplied by x (RFC 8452, appendix A). */
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
