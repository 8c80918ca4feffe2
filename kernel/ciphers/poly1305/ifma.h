/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Numbers modulo 2^130 - 5 in limbs of 44, 44 and 42 bits, eight at a time with IFMA; powers of r.
 * Include ../simd/vec_zmm.h first.
 */
#ifndef KILN_POLY1305_IFMA_H
#define KILN_POLY1305_IFMA_H

#include "poly1305_limbs.h"

#define MASK44 POLY1305_MASK44
#define MASK42 POLY1305_MASK42

#define v_all64(x) _mm512_set1_epi64((long long)(x))
#define v_lo(sum, a, b) _mm512_madd52lo_epu64(sum, a, b)
#define v_hi(sum, a, b) _mm512_madd52hi_epu64(sum, a, b)

/* The limbs of a power of r, and 20 times the higher limbs, since 2^132 is congruent to 20. */
struct power {
	vec_t r0, r1, r2, s1, s2;
};

/* Sums of the lower and upper halves of products, for each limb of the result. */
struct sum {
	vec_t lo0, lo1, lo2, hi0, hi1, hi2;
};

struct limbs {
	vec_t l0, l1, l2;
};

static __always_inline struct power power_from(vec_t r0, vec_t r1, vec_t r2)
{
	struct power p = { .r0 = r0, .r1 = r1, .r2 = r2 };

	p.s1 = v_add64(v_sll(r1, 4), v_sll(r1, 2));
	p.s2 = v_add64(v_sll(r2, 4), v_sll(r2, 2));
	return p;
}

static __always_inline void mul_add(struct sum *d, struct limbs m, const struct power *p)
{
#define ADD(a, b0, b1, b2)                                                    \
	d->lo0 = v_lo(d->lo0, m.a, p->b0);                                    \
	d->lo1 = v_lo(d->lo1, m.a, p->b1);                                    \
	d->lo2 = v_lo(d->lo2, m.a, p->b2);                                    \
	d->hi0 = v_hi(d->hi0, m.a, p->b0);                                    \
	d->hi1 = v_hi(d->hi1, m.a, p->b1);                                    \
	d->hi2 = v_hi(d->hi2, m.a, p->b2);
	ADD(l0, r0, r1, r2)
	ADD(l1, s2, r0, r1)
	ADD(l2, s1, s2, r0)
#undef ADD
}

static __always_inline struct limbs carry(struct sum d)
{
	const vec_t mask44 = v_all64(MASK44), mask42 = v_all64(MASK42);
	struct limbs h;
	vec_t c;

	c = v_add64(v_srl(d.lo0, 44), v_sll(d.hi0, 8));
	h.l0 = v_and(d.lo0, mask44);
	d.lo1 = v_add64(d.lo1, c);
	c = v_add64(v_srl(d.lo1, 44), v_sll(d.hi1, 8));
	h.l1 = v_and(d.lo1, mask44);
	d.lo2 = v_add64(d.lo2, c);
	c = v_add64(v_srl(d.lo2, 42), v_sll(d.hi2, 10));
	h.l2 = v_and(d.lo2, mask42);
	h.l0 = v_add64(h.l0, v_add64(c, v_sll(c, 2)));
	h.l1 = v_add64(h.l1, v_srl(h.l0, 44));
	h.l0 = v_and(h.l0, mask44);
	return h;
}

/* The powers r^4 to r^1, twice. Multiplying the first four by r^4 turns them into r^8 to r^5. */
#define FOUR_TWICE(l) _mm512_set_epi64((long long)p1.l, (long long)p2.l, (long long)p3.l, \
	(long long)p4.l, (long long)p1.l, (long long)p2.l, (long long)p3.l, (long long)p4.l)
#define UPPER_FOUR(one, l) _mm512_mask_set1_epi64(one, 0x0f, (long long)p4.l)

/*
 * Computes the powers of r that poly1305_blocks_vaes_avx512() needs for @len bytes. The first four
 * are computed in general-purpose registers; the others are derived from them in vectors.
 */
static __always_inline void powers_zmm(struct poly1305_key *key, size_t len)
{
	const struct poly1305_limbs p1 = poly1305_limbs_of_r(key);
	const struct poly1305_limbs p2 = poly1305_mul(p1, p1);
	const struct poly1305_limbs p3 = poly1305_mul(p2, p1), p4 = poly1305_mul(p2, p2);
	struct limbs low, high;
	struct power p;
	const vec_t zero = v_zero();
	struct sum d;

	d = (struct sum){ 0 };
	low = (struct limbs){ FOUR_TWICE(l0), FOUR_TWICE(l1), FOUR_TWICE(l2) };
	p = power_from(UPPER_FOUR(v_all64(1), l0), UPPER_FOUR(zero, l1), UPPER_FOUR(zero, l2));
	mul_add(&d, low, &p);
	low = carry(d);
	v_store(key->low44[0], low.l0);
	v_store(key->low44[1], low.l1);
	v_store(key->low44[2], low.l2);
	/*
	 * r^16 is used only if at least two vectors follow the first one, r^24 and r^32 only if at
	 * least four follow it.
	 */
	if (len <= 2 * 128)
		return;
	p = power_from(_mm512_permutexvar_epi64(zero, low.l0),
		       _mm512_permutexvar_epi64(zero, low.l1),
		       _mm512_permutexvar_epi64(zero, low.l2));
	d = (struct sum){ 0 };
	high = (struct limbs){ p.r0, p.r1, p.r2 };
	mul_add(&d, high, &p);
	high = carry(d);
	if (len > 4 * 128) {
		/*
		 * Lane 0 keeps r^16. Lane 1 becomes the product of r^16 and r^8, lane 2 the product
		 * of r^16 and r^16.
		 */
		p = power_from(_mm512_mask_mov_epi64(high.l0, 0x02, p.r0),
			       _mm512_mask_mov_epi64(high.l1, 0x02, p.r1),
			       _mm512_mask_mov_epi64(high.l2, 0x02, p.r2));
		p = power_from(_mm512_mask_mov_epi64(p.r0, 0x01, v_all64(1)),
			       _mm512_maskz_mov_epi64(0xfe, p.r1),
			       _mm512_maskz_mov_epi64(0xfe, p.r2));
		d = (struct sum){ 0 };
		mul_add(&d, high, &p);
		high = carry(d);
	}
	_mm256_storeu_si256((__m256i *)key->high44[0], _mm512_castsi512_si256(high.l0));
	_mm256_storeu_si256((__m256i *)key->high44[1], _mm512_castsi512_si256(high.l1));
	_mm256_storeu_si256((__m256i *)key->high44[2], _mm512_castsi512_si256(high.l2));
}

#endif
