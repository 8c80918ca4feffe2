/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * NH with vector registers: the template that every SIMD tier includes once, after one of
 * ../simd/vec_*.h. The tier also defines:
 *
 *	NH		name of the entry point
 *	v_put(sum, s0, s1, s2, s3)	adds up the 64-bit words of each vector and stores the sums
 *	REST(n)		processes the last n units of a message, less than a vector
 *	nh_few(key, src, units, sum)	optional: hashes up to FEW units, if FEW is defined
 *
 * A pass takes four operations per vector instead of five, because the words of the message are
 * reordered before the key is added. The reordering and four passes take 17 operations per vector.
 * Additions can use all ports, multiplications only two. Each pass loads its own part of the key.
 */

#include "nhpoly1305.h"

#include <kiln/fpu_assert.h>

/*
 * v_order() puts the words of each unit in the order 0, 2, 1, 3. v_mul() multiplies the two halves
 * of each 64-bit word.
 */
#define v_order(v) v_shuffle32(v, 0xd8)
static __always_inline vec_t v_mul(vec_t v)
{
	return v_mul32(v, v_srl(v, 32));
}

/*
 * Runs the four passes over the words @m with the key at @k. SUM(m, k) adds the key to the words.
 */
#define PASSES(SUM, m)                                                        \
	s0 = v_add64(s0, v_mul(SUM(m, k)));                                   \
	s1 = v_add64(s1, v_mul(SUM(m, k + 4)));                               \
	s2 = v_add64(s2, v_mul(SUM(m, k + 8)));                               \
	s3 = v_add64(s3, v_mul(SUM(m, k + 12)));
#define SUM(m, k) v_add32(m, v_load(k))

void NH(const u32 *key, const u8 *src, size_t units, struct nh_sum *sums)
{
	assert_fpu_section();
#ifdef FEW
	if (units <= FEW) {
		nh_few(key, src, units, sums);
		return;
	}
#endif
	while (units) {
		const u32 *k = key;
		size_t n = units < NH_MESSAGE / NH_UNIT ? units : NH_MESSAGE / NH_UNIT;
		vec_t s0 = v_zero(), s1 = s0, s2 = s0, s3 = s0;

		for (units -= n; n >= VBLOCKS; n -= VBLOCKS, src += VBYTES) {
			const vec_t m = v_order(v_load(src));

			PASSES(SUM, m)
			k += 4 * VBLOCKS;
		}
		REST(n)
		v_put(sums, s0, s1, s2, s3);
		sums++;
	}
	v_end();
}
