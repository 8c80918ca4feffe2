// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* NH in general-purpose registers. */
#include <kiln/unaligned.h>

#include "nhpoly1305.h"

static __always_inline u64 pass(const u32 *k, u32 m0, u32 m1, u32 m2, u32 m3)
{
	return (u64)(m0 + k[0]) * (m2 + k[1]) + (u64)(m1 + k[2]) * (m3 + k[3]);
}

void nh_generic(const u32 *key, const u8 *src, size_t units, struct nh_sum *sums)
{
	while (units) {
		const u32 *k = key;
		size_t n = units < NH_MESSAGE / NH_UNIT ? units : NH_MESSAGE / NH_UNIT;
		u64 s0 = 0, s1 = 0, s2 = 0, s3 = 0;

		for (units -= n; n; n--, src += NH_UNIT, k += 4) {
			const u32 m0 = get_le32(src), m1 = get_le32(src + 4),
				  m2 = get_le32(src + 8), m3 = get_le32(src + 12);

			s0 += pass(k, m0, m1, m2, m3);
			s1 += pass(k + 4, m0, m1, m2, m3);
			s2 += pass(k + 8, m0, m1, m2, m3);
			s3 += pass(k + 12, m0, m1, m2, m3);
		}
		*sums++ = (struct nh_sum){ { s0, s1, s2, s3 } };
	}
}
