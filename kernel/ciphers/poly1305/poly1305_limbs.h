/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Arithmetic modulo 2^130 - 5 in general-purpose registers, with limbs of 44, 44 and 42 bits. */
#ifndef KILN_POLY1305_LIMBS_H
#define KILN_POLY1305_LIMBS_H

#include "poly1305.h"

__extension__ typedef unsigned __int128 u128;

#define POLY1305_MASK44 0xfffffffffffull
#define POLY1305_MASK42 0x3ffffffffffull

struct poly1305_limbs {
	u64 l0, l1, l2;
};

/*
 * Multiplies modulo 2^130 - 5, where 2^132 is congruent to 20. The limbs of the product have at
 * most 45, 45 and 43 bits.
 */
static __always_inline struct poly1305_limbs poly1305_mul(struct poly1305_limbs a, struct poly1305_limbs b)
{
	const u64 s1 = 20 * b.l1, s2 = 20 * b.l2;
	u128 d0 = (u128)a.l0 * b.l0 + (u128)a.l1 * s2 + (u128)a.l2 * s1;
	u128 d1 = (u128)a.l0 * b.l1 + (u128)a.l1 * b.l0 + (u128)a.l2 * s2;
	u128 d2 = (u128)a.l0 * b.l2 + (u128)a.l1 * b.l1 + (u128)a.l2 * b.l0;
	struct poly1305_limbs p;

	d1 += (u64)(d0 >> 44);
	d2 += (u64)(d1 >> 44);
	p.l0 = ((u64)d0 & POLY1305_MASK44) + 5 * (u64)(d2 >> 42);
	p.l1 = ((u64)d1 & POLY1305_MASK44) + (p.l0 >> 44);
	p.l0 &= POLY1305_MASK44;
	p.l2 = ((u64)d2 & POLY1305_MASK42) + (p.l1 >> 44);
	p.l1 &= POLY1305_MASK44;
	return p;
}

static __always_inline struct poly1305_limbs poly1305_limbs_of_r(const struct poly1305_key *key)
{
	const u64 r0 = key->r[0], r1 = key->r[1];

	return (struct poly1305_limbs){
		r0 & POLY1305_MASK44, (r0 >> 44 | r1 << 20) & POLY1305_MASK44, r1 >> 24,
	};
}

/* Stores @p, which is r^n with 1 <= n <= 8, in the key, for the tiers without IFMA. */
static __always_inline void poly1305_put26(struct poly1305_key *key, int n, struct poly1305_limbs p)
{
	/* @p may exceed 2^130, so p.l2 may have 43 bits instead of 42. Do not mask the top limb. */
	key->low26[0][8 - n] = p.l0 & 0x3ffffff;
	key->low26[1][8 - n] = (p.l0 >> 26 | p.l1 << 18) & 0x3ffffff;
	key->low26[2][8 - n] = (p.l1 >> 8) & 0x3ffffff;
	key->low26[3][8 - n] = (p.l1 >> 34 | p.l2 << 10) & 0x3ffffff;
	key->low26[4][8 - n] = (u32)(p.l2 >> 16);
}

/*
 * Computes the powers of r for a tier without IFMA: r^1 to r^lanes, and r^(2 * lanes), where @lanes
 * is 2 or 4. Uses only general-purpose registers, because chacha_blocks.h places this code between
 * vector operations.
 */
static __always_inline void poly1305_powers26(struct poly1305_key *key, const int lanes)
{
	const struct poly1305_limbs p1 = poly1305_limbs_of_r(key);
	const struct poly1305_limbs p2 = poly1305_mul(p1, p1), p4 = poly1305_mul(p2, p2);

	poly1305_put26(key, 1, p1);
	poly1305_put26(key, 2, p2);
	poly1305_put26(key, 4, p4);
	if (lanes == 4) {
		poly1305_put26(key, 3, poly1305_mul(p2, p1));
		poly1305_put26(key, 8, poly1305_mul(p4, p4));
	}
}

#endif
