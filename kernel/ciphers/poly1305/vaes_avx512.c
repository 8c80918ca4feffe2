/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Poly1305 with IFMA on 512-bit vectors. It processes eight blocks per vector, in three limbs of
 * 44, 44 and 42 bits.
 *
 * A product of two numbers of up to 52 bits is computed in two halves. The upper half has the
 * weight 2^52, which is 2^8 in the next limb. Eight blocks take eighteen multiplications, and two
 * multiplications can start per cycle, so 128 bytes take 9 cycles. A carry propagation is a chain
 * of a dozen operations of two cycles each, so four vectors share one carry propagation:
 *
 *	h = h r^32 + m0 r^24 + m1 r^16 + m2 r^8 + m3
 *
 * Only the first of these products waits for the previous h. At the very end, the lanes of h are
 * multiplied by the powers that their blocks need, r^8 to r.
 *
 * If the blocks do not fill all vectors, the first vector is padded: zeros before the message
 * change nothing, provided that their 129th bit is not set.
 */
#include "../simd/vec_zmm.h"
#include "ifma.h"

#include <kiln/fpu_assert.h>

/* For up to this many blocks, general-purpose registers are as fast as vectors. */
#define FEW_BLOCKS 4

/*
 * The order of the blocks in the lanes of a vector after unpacking; the highest lane comes first.
 */
#define ORDER _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0)

static __always_inline struct limbs limbs_from(vec_t a, vec_t b, vec_t bit)
{
	const vec_t lo = v_lo64(a, b), hi = v_hi64(a, b);
	const vec_t mask44 = v_all64(MASK44);

	return (struct limbs){
		.l0 = v_and(lo, mask44),
		.l1 = v_and(_mm512_shrdi_epi64(lo, hi, 44), mask44),
		.l2 = v_or(v_srl(hi, 24), bit),
	};
}

static __always_inline struct limbs load(const u8 *src)
{
	return limbs_from(v_load(src), v_load(src + 64),
			  v_all64(1ull << 40));
}

static __always_inline struct sum sum_of(struct limbs m)
{
	const vec_t zero = v_zero();

	return (struct sum){ m.l0, m.l1, m.l2, zero, zero, zero };
}

/* Loads the first @n blocks, 1 to 8, and adds the sum so far to the first of them. */
static __always_inline struct limbs first(const struct poly1305_sum *sum, const u8 *src,
					  size_t n)
{
	/*
	 * Load eight blocks, the last @n of which are the blocks at @src. The mask excludes the
	 * bytes before @src.
	 */
	const u8 *from = src - 16 * (8 - n);
	const u32 mask = (0xffffu << 2 * (8 - n)) & 0xffff;
	const __mmask8 has = _mm512_cmpge_epu64_mask(ORDER, v_all64(8 - n));
	const __mmask8 at = _mm512_cmpeq_epu64_mask(ORDER, v_all64(8 - n));
	const u64 *h = sum->h;
	struct limbs m = limbs_from(_mm512_maskz_loadu_epi64((__mmask8)mask, from),
				    _mm512_maskz_loadu_epi64((__mmask8)(mask >> 8), from + 64),
				    _mm512_maskz_set1_epi64(has, 1ll << 40));

	m.l0 = _mm512_mask_add_epi64(m.l0, at, m.l0, v_all64(h[0] & MASK44));
	m.l1 = _mm512_mask_add_epi64(m.l1, at, m.l1,
				     v_all64((h[0] >> 44 | h[1] << 20) & MASK44));
	m.l2 = _mm512_mask_add_epi64(m.l2, at, m.l2, v_all64(h[1] >> 24 | h[2] << 40));
	return m;
}

/* Adds up the lanes, propagates the carries, and stores the sum as words. */
static __always_inline void put_sum(struct poly1305_sum *sum, struct limbs h)
{
	u64 l0 = (u64)_mm512_reduce_add_epi64(h.l0);
	u64 l1 = (u64)_mm512_reduce_add_epi64(h.l1);
	u64 l2 = (u64)_mm512_reduce_add_epi64(h.l2);

	l1 += l0 >> 44;
	l0 &= MASK44;
	l2 += l1 >> 44;
	l1 &= MASK44;
	l0 += 5 * (l2 >> 42);
	l2 &= MASK42;
	l1 += l0 >> 44;
	l0 &= MASK44;
	/* l1 may be 2^44 now, so it must be added, not ORed, below. */
	l2 += l1 >> 44;
	l1 &= MASK44;
	sum->h[0] = l0 | l1 << 44;
	sum->h[1] = l1 >> 20 | l2 << 24;
	sum->h[2] = l2 >> 40;
}

#define HIGH(n) power_from(v_all64(key->high44[0][n]), v_all64(key->high44[1][n]), \
			   v_all64(key->high44[2][n]))
#define EIGHTH power_from(v_all64(key->low44[0][0]), v_all64(key->low44[1][0]), \
			  v_all64(key->low44[2][0]))

/* Keeps its vectors in structures, because compilers would place arrays of vectors in memory. */
static noinline void long_message(const struct poly1305_key *key, struct poly1305_sum *sum,
				  const u8 *src, size_t blocks)
{
	const size_t n = (blocks - 1) % 8 + 1;
	size_t vectors = (blocks - n) / 8;
	struct limbs h = first(sum, src, n);
	const vec_t order = ORDER;
	struct sum d;
	struct power p;

	src += 16 * n;
	if (vectors >= 4) {
		const struct power p8 = EIGHTH, p16 = HIGH(0), p24 = HIGH(1), p32 = HIGH(2);

		do {
			d = sum_of(load(src + 384));
			mul_add(&d, load(src + 256), &p8);
			mul_add(&d, load(src + 128), &p16);
			mul_add(&d, load(src), &p24);
			mul_add(&d, h, &p32);
			h = carry(d);
			src += 512;
			vectors -= 4;
		} while (vectors >= 4);
	}
	if (vectors & 2) {
		const struct power p8 = EIGHTH, p16 = HIGH(0);

		d = sum_of(load(src + 128));
		mul_add(&d, load(src), &p8);
		mul_add(&d, h, &p16);
		h = carry(d);
		src += 256;
	}
	if (vectors & 1) {
		const struct power p8 = EIGHTH;

		d = sum_of(load(src));
		mul_add(&d, h, &p8);
		h = carry(d);
	}
	p = power_from(_mm512_permutexvar_epi64(order, v_load(key->low44[0])),
		       _mm512_permutexvar_epi64(order, v_load(key->low44[1])),
		       _mm512_permutexvar_epi64(order, v_load(key->low44[2])));
	d = (struct sum){ 0 };
	mul_add(&d, h, &p);
	put_sum(sum, carry(d));
	v_end();
}

void poly1305_blocks_vaes_avx512(const struct poly1305_key *key, struct poly1305_sum *sum,
				 const u8 *src, size_t blocks)
{
	assert_fpu_section();
	if (blocks <= FEW_BLOCKS)
		poly1305_blocks_generic(key, sum, src, blocks);
	else
		long_message(key, sum, src, blocks);
}
