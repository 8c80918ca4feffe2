// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Poly1305 in general-purpose registers, with 64-bit words and 128-bit products. */
#include <kiln/unaligned.h>

#include "poly1305_limbs.h"

struct words {
	u64 h0, h1, h2;
};

/*
 * Computes (h + block) * r. Clamping clears the two low bits of r1, so 2^128 * r1 is congruent to
 * 5/4 * r1 modulo 2^130 - 5, and 5/4 * r1 is an integer.
 */
static __always_inline struct words step(struct words h, const u8 *src, u64 bit, u64 r0,
					 u64 r1)
{
	const u64 s1 = r1 + (r1 >> 2);
	u128 d0, d1;
	u64 d2, c;

	d0 = (u128)h.h0 + get_le64(src);
	d1 = (u128)h.h1 + get_le64(src + 8) + (u64)(d0 >> 64);
	h.h0 = (u64)d0;
	h.h1 = (u64)d1;
	h.h2 += (u64)(d1 >> 64) + bit;

	d0 = (u128)h.h0 * r0 + (u128)h.h1 * s1;
	d1 = (u128)h.h0 * r1 + (u128)h.h1 * r0 + h.h2 * s1;
	d2 = h.h2 * r0;
	d1 += (u64)(d0 >> 64);
	d2 += (u64)(d1 >> 64);
	/* Reduce the part above 2^130 by multiplying it by 5. */
	c = (d2 >> 2) + (d2 & ~3ull);
	d0 = (u128)(u64)d0 + c;
	d1 = (u128)(u64)d1 + (u64)(d0 >> 64);
	h.h0 = (u64)d0;
	h.h1 = (u64)d1;
	h.h2 = (d2 & 3) + (u64)(d1 >> 64);
	return h;
}

void poly1305_block(const struct poly1305_key *key, struct poly1305_sum *sum, const u8 *src,
		    u64 bit)
{
	const struct words h = step((struct words){ sum->h[0], sum->h[1], sum->h[2] }, src,
				    bit, key->r[0], key->r[1]);

	sum->h[0] = h.h0;
	sum->h[1] = h.h1;
	sum->h[2] = h.h2;
}

void poly1305_blocks_generic(const struct poly1305_key *key, struct poly1305_sum *sum,
			     const u8 *src, size_t blocks)
{
	const u64 r0 = key->r[0], r1 = key->r[1], s1 = r1 + (r1 >> 2);
	u64 h0 = sum->h[0], h1 = sum->h[1], h2 = sum->h[2], c = 0;

	if (!blocks)
		return;
	for (;;) {
		u128 d0, d1;
		u64 d2;

		/* Add the block first and the carry c last, because c is ready last. */
		d0 = (u128)h0 + get_le64(src);
		d1 = (u128)h1 + get_le64(src + 8) + (u64)(d0 >> 64);
		h2 += (u64)(d1 >> 64) + 1;
		d0 = (u128)(u64)d0 + c;
		d1 = (u128)(u64)d1 + (u64)(d0 >> 64);
		h0 = (u64)d0;
		h1 = (u64)d1;
		h2 += (u64)(d1 >> 64);

		d0 = (u128)h0 * r0 + (u128)h1 * s1;
		d1 = (u128)h0 * r1 + (u128)h1 * r0 + h2 * s1;
		d2 = h2 * r0;
		d1 += (u64)(d0 >> 64);
		d2 += (u64)(d1 >> 64);
		c = (d2 >> 2) + (d2 & ~3ull);
		h0 = (u64)d0;
		h1 = (u64)d1;
		h2 = d2 & 3;
		src += POLY1305_BLOCK_SIZE;
		if (!--blocks)
			break;
	}
	{
		u128 t = (u128)h0 + c;

		sum->h[0] = (u64)t;
		t = (u128)h1 + (u64)(t >> 64);
		sum->h[1] = (u64)t;
		sum->h[2] = h2 + (u64)(t >> 64);
	}
}

void poly1305_emit(const struct poly1305_key *key, const struct poly1305_sum *sum, u8 *out)
{
	u64 h0 = sum->h[0], h1 = sum->h[1], h2 = sum->h[2], mask;
	u128 t;

	/*
	 * h + 5 is at least 2^130 if and only if h is at least 2^130 - 5. Subtracting the modulus
	 * once is then enough.
	 */
	t = (u128)h0 + 5;
	t = (u128)h1 + (u64)(t >> 64);
	mask = 0 - ((h2 + (u64)(t >> 64)) >> 2);
	t = (u128)h0 + (mask & 5);
	h0 = (u64)t;
	h1 += (u64)(t >> 64);

	t = (u128)h0 + key->s[0];
	put_le64((u64)t, out);
	put_le64(h1 + key->s[1] + (u64)(t >> 64), out + 8);
}

void poly1305_clamp(struct poly1305_key *key, const u8 *raw)
{
	key->r[0] = get_le64(raw) & 0x0ffffffc0fffffff;
	key->r[1] = get_le64(raw + 8) & 0x0ffffffc0ffffffc;
	key->s[0] = get_le64(raw + 16);
	key->s[1] = get_le64(raw + 24);
}

static void keep(struct poly1305_key *key, int n, struct poly1305_limbs p)
{
	/* p may exceed 2^130, so its highest limb may have one bit more than 42. */
	key->low44[0][8 - n] = p.l0;
	key->low44[1][8 - n] = p.l1;
	key->low44[2][8 - n] = p.l2;
	key->low26[0][8 - n] = p.l0 & 0x3ffffff;
	key->low26[1][8 - n] = (p.l0 >> 26 | p.l1 << 18) & 0x3ffffff;
	key->low26[2][8 - n] = (p.l1 >> 8) & 0x3ffffff;
	key->low26[3][8 - n] = (p.l1 >> 34 | p.l2 << 10) & 0x3ffffff;
	key->low26[4][8 - n] = (u32)(p.l2 >> 16);
}

static void keep_high(struct poly1305_key *key, int n, struct poly1305_limbs p)
{
	key->high44[0][n] = p.l0;
	key->high44[1][n] = p.l1;
	key->high44[2][n] = p.l2;
}

void poly1305_powers(struct poly1305_key *key, size_t len)
{
	const struct poly1305_limbs p1 = poly1305_limbs_of_r(key);
	const struct poly1305_limbs p2 = poly1305_mul(p1, p1), p3 = poly1305_mul(p2, p1);
	const struct poly1305_limbs p4 = poly1305_mul(p2, p2), p8 = poly1305_mul(p4, p4);
	const struct poly1305_limbs p16 = poly1305_mul(p8, p8);

	(void)len;
	keep(key, 1, p1);
	keep(key, 2, p2);
	keep(key, 3, p3);
	keep(key, 4, p4);
	keep(key, 5, poly1305_mul(p4, p1));
	keep(key, 6, poly1305_mul(p4, p2));
	keep(key, 7, poly1305_mul(p4, p3));
	keep(key, 8, p8);
	keep_high(key, 0, p16);
	keep_high(key, 1, poly1305_mul(p16, p8));
	keep_high(key, 2, poly1305_mul(p16, p16));
}
