/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Poly1305 with 32-bit multiplications: the template for the tiers without IFMA. It processes LANES
 * blocks per vector, in five limbs of 26 bits.
 *
 * The including file includes one of ../simd/vec_*.h first and defines:
 *
 *	BLOCKS		name of the entry point
 *	v_power(p)	loads the u32 values at p into 64-bit words, in the order in which
 *			unpacking leaves the blocks
 *	v_at_first(x)	returns @x in the word of the first block, 0 in the others
 *	v_sum64(v)	returns the sum of the 64-bit words
 *
 * Two vectors share one carry propagation, h = h r^(2 LANES) + m0 r^LANES + m1. At the very end the
 * lanes are multiplied by the powers that their blocks need. Blocks that do not fill a vector are
 * processed first, in general-purpose registers.
 */

#include "poly1305.h"

#include <kiln/fpu_assert.h>
#include <kiln/unaligned.h>

/* For up to this many blocks, general-purpose registers are as fast as vectors. */
#define FEW_BLOCKS 12
#define MASK26 0x3ffffffull
#define LANES (2 * VBLOCKS)

#define v_all64(x) V(set1_epi64x)((long long)(x))

/* The limbs of a power of r, and 5 times the higher limbs, since 2^130 is congruent to 5. */
struct power {
	vec_t r0, r1, r2, r3, r4, s1, s2, s3, s4;
};

struct limbs {
	vec_t l0, l1, l2, l3, l4;
};

static __always_inline struct power power_from(vec_t r0, vec_t r1, vec_t r2, vec_t r3,
					       vec_t r4)
{
	struct power p = { .r0 = r0, .r1 = r1, .r2 = r2, .r3 = r3, .r4 = r4 };

	p.s1 = v_add64(v_sll(r1, 2), r1);
	p.s2 = v_add64(v_sll(r2, 2), r2);
	p.s3 = v_add64(v_sll(r3, 2), r3);
	p.s4 = v_add64(v_sll(r4, 2), r4);
	return p;
}

static __always_inline struct power power(const struct poly1305_key *key, int n)
{
	return power_from(v_all64(key->low26[0][8 - n]), v_all64(key->low26[1][8 - n]),
			  v_all64(key->low26[2][8 - n]), v_all64(key->low26[3][8 - n]),
			  v_all64(key->low26[4][8 - n]));
}

static __always_inline struct limbs mul_add(struct limbs d, struct limbs m,
					    const struct power *p)
{
#define ADD(to, a, b) d.to = v_add64(d.to, v_mul32(m.a, p->b));
	ADD(l0, l0, r0) ADD(l1, l0, r1) ADD(l2, l0, r2) ADD(l3, l0, r3) ADD(l4, l0, r4)
	ADD(l0, l1, s4) ADD(l1, l1, r0) ADD(l2, l1, r1) ADD(l3, l1, r2) ADD(l4, l1, r3)
	ADD(l0, l2, s3) ADD(l1, l2, s4) ADD(l2, l2, r0) ADD(l3, l2, r1) ADD(l4, l2, r2)
	ADD(l0, l3, s2) ADD(l1, l3, s3) ADD(l2, l3, s4) ADD(l3, l3, r0) ADD(l4, l3, r1)
	ADD(l0, l4, s1) ADD(l1, l4, s2) ADD(l2, l4, s3) ADD(l3, l4, s4) ADD(l4, l4, r0)
#undef ADD
	return d;
}

/*
 * Propagates the carries in two independent chains. Afterwards, each limb is at most slightly
 * larger than 26 bits.
 */
static __always_inline struct limbs carry(struct limbs d)
{
	const vec_t mask = v_all64(MASK26);
	vec_t c;

#define FROM(a, b)                                                            \
	c = v_srl(d.a, 26);                                                   \
	d.a = v_and(d.a, mask);                                               \
	d.b = v_add64(d.b, c);
	FROM(l0, l1)
	FROM(l3, l4)
	FROM(l1, l2)
	c = v_srl(d.l4, 26);
	d.l4 = v_and(d.l4, mask);
	d.l0 = v_add64(d.l0, v_add64(c, v_sll(c, 2)));
	FROM(l2, l3)
	FROM(l0, l1)
	FROM(l3, l4)
#undef FROM
	return d;
}

static __always_inline struct limbs load(const u8 *src)
{
	const vec_t a = v_load(src), b = v_load(src + 8 * LANES);
	const vec_t lo = v_lo64(a, b), hi = v_hi64(a, b), mask = v_all64(MASK26);

	return (struct limbs){
		.l0 = v_and(lo, mask),
		.l1 = v_and(v_srl(lo, 26), mask),
		.l2 = v_and(v_or(v_srl(lo, 52), v_sll(hi, 12)), mask),
		.l3 = v_and(v_srl(hi, 14), mask),
		.l4 = v_or(v_srl(hi, 40), v_all64(1ull << 24)),
	};
}

/* Loads the first vector of blocks and adds the sum so far to the first block. */
static __always_inline struct limbs first(const struct poly1305_sum *sum, const u8 *src)
{
	const u64 *h = sum->h;
	struct limbs m = load(src);

	m.l0 = v_add64(m.l0, v_at_first(h[0] & MASK26));
	m.l1 = v_add64(m.l1, v_at_first((h[0] >> 26) & MASK26));
	m.l2 = v_add64(m.l2, v_at_first((h[0] >> 52 | h[1] << 12) & MASK26));
	m.l3 = v_add64(m.l3, v_at_first((h[1] >> 14) & MASK26));
	m.l4 = v_add64(m.l4, v_at_first(h[1] >> 40 | h[2] << 24));
	return m;
}

/* Adds up the lanes, propagates the carries, and stores the sum as words. */
static __always_inline void put_sum(struct poly1305_sum *sum, struct limbs h)
{
	u64 l0 = v_sum64(h.l0), l1 = v_sum64(h.l1), l2 = v_sum64(h.l2), l3 = v_sum64(h.l3),
	    l4 = v_sum64(h.l4), low, t;

	l1 += l0 >> 26;
	l2 += l1 >> 26;
	l3 += l2 >> 26;
	l4 += l3 >> 26;
	l0 = (l0 & MASK26) + 5 * (l4 >> 26);
	l4 &= MASK26;
	l1 = (l1 & MASK26) + (l0 >> 26);
	l0 &= MASK26;
	/* l1 may have slightly more than 26 bits, so add it with carries. */
	low = l0 + (l1 << 26);
	t = (l2 & MASK26) << 52;
	low += t;
	t = (l2 & MASK26) >> 12 | (l3 & MASK26) << 14;
	t += low < (l2 & MASK26) << 52;
	sum->h[0] = low;
	low = t + (l4 << 40);
	sum->h[1] = low;
	sum->h[2] = (l4 >> 24) + (low < t);
}

void BLOCKS(const struct poly1305_key *key, struct poly1305_sum *sum, const u8 *src,
	    size_t blocks)
{
	const size_t odd = blocks <= FEW_BLOCKS ? blocks : blocks % LANES;
	struct power p;
	struct limbs h;
	vec_t zero;

	assert_fpu_section();
	if (odd) {
		poly1305_blocks_generic(key, sum, src, odd);
		src += 16 * odd;
		blocks -= odd;
		if (!blocks)
			return;
	}
	h = first(sum, src);
	src += 16 * LANES;
	blocks -= LANES;
	if (blocks >= 2 * LANES) {
		const struct power one = power(key, LANES), two = power(key, 2 * LANES);

		do {
			h = mul_add(mul_add(load(src + 16 * LANES), load(src), &one), h,
				    &two);
			h = carry(h);
			src += 32 * LANES;
			blocks -= 2 * LANES;
		} while (blocks >= 2 * LANES);
	}
	if (blocks) {
		p = power(key, LANES);
		h = carry(mul_add(load(src), h, &p));
	}
	p = power_from(v_power(key->low26[0] + 8 - LANES), v_power(key->low26[1] + 8 - LANES),
		       v_power(key->low26[2] + 8 - LANES), v_power(key->low26[3] + 8 - LANES),
		       v_power(key->low26[4] + 8 - LANES));
	zero = v_all64(0);
	h = mul_add((struct limbs){ zero, zero, zero, zero, zero }, h, &p);
	put_sum(sum, carry(h));
	v_end();
}
