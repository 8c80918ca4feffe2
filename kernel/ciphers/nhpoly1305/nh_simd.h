/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * NH with vector registers: the template every SIMD tier includes once.
 *
 *	NH		name of the entry point
 *	vec_t, LANES	a vector of so many units
 *	v_load(p), v_add32, v_add64, v_zero()
 *	v_order(v)	the words of each unit in the order 0, 2, 1, 3
 *	v_mul(v)	the two halves of each 64-bit word multiplied
 *	v_put(sum, s0, s1, s2, s3)	each vector's words summed up, to memory
 *	REST(n)		the last n units of a message, less than a vector
 *	nh_few(key, src, units, sum)	at most FEW units, if FEW is defined
 *
 * Five operations a vector and pass would be four with the message's words in the right
 * order before the key is added: 17 for a vector. Adding and multiplying are on all ports
 * and on two; what remains to be loaded is the key, once for each pass.
 */

#include "nhpoly1305.h"

#include <kiln/fpu_assert.h>

#define PASS(s, m, k) s = v_add64(s, v_mul(v_add32(m, v_load(k))));
#define STEP(m)                                                               \
	PASS(s0, m, k)                                                        \
	PASS(s1, m, k + 4)                                                    \
	PASS(s2, m, k + 8)                                                    \
	PASS(s3, m, k + 12)

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

		for (units -= n; n >= LANES; n -= LANES, src += LANES * NH_UNIT) {
			const vec_t m = v_order(v_load(src));

			STEP(m)
			k += 4 * LANES;
		}
		REST(n)
		v_put(sums, s0, s1, s2, s3);
		sums++;
	}
	v_end();
}
