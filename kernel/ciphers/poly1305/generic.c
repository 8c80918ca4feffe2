// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Poly1305 in general-purpose registers: functions for all tiers. */
#include "poly1305_words.h"

static __always_inline struct poly1305_words words_of(const struct poly1305_sum *sum)
{
	return (struct poly1305_words){ .h0 = sum->h[0], .h1 = sum->h[1], .h2 = sum->h[2] };
}

static __always_inline void block(const struct poly1305_key *key, struct poly1305_sum *sum, u64 m0,
				  u64 m1, u64 bit)
{
	*sum = poly1305_sum_of(poly1305_step(words_of(sum), m0, m1, bit, key->r[0], key->r[1]));
}

void poly1305_block(const struct poly1305_key *key, struct poly1305_sum *sum, const u8 *src,
		    u64 bit)
{
	block(key, sum, get_le64(src), get_le64(src + 8), bit);
}

void poly1305_two_words(const struct poly1305_key *key, struct poly1305_sum *sum, u64 m0, u64 m1)
{
	block(key, sum, m0, m1, 1);
}

void poly1305_part(const struct poly1305_key *key, struct poly1305_sum *sum, const u8 *src,
		   size_t len, bool whole)
{
	u64 m[2];

	poly1305_load_part(m, src, len);
	if (!whole)
		m[len / 8] |= 1ull << 8 * (len % 8);
	block(key, sum, m[0], m[1], whole);
}

void poly1305_blocks_generic(const struct poly1305_key *key, struct poly1305_sum *sum,
			     const u8 *src, size_t blocks)
{
	*sum = poly1305_sum_of(poly1305_steps(words_of(sum), src, blocks, key->r[0], key->r[1]));
}

void poly1305_emit(const struct poly1305_key *key, const struct poly1305_sum *sum, u8 *out)
{
	u64 tag[2];

	poly1305_tag(*sum, key->s[0], key->s[1], tag);
	put_le64(tag[0], out);
	put_le64(tag[1], out + 8);
}

void poly1305_clamp(struct poly1305_key *key, const u8 *raw)
{
	poly1305_set(key, get_le64(raw), get_le64(raw + 8), get_le64(raw + 16),
		     get_le64(raw + 24));
}

static void keep(struct poly1305_key *key, int n, struct poly1305_limbs p)
{
	key->low44[0][8 - n] = p.l0;
	key->low44[1][8 - n] = p.l1;
	key->low44[2][8 - n] = p.l2;
	poly1305_put26(key, n, p);
}

static void keep_high(struct poly1305_key *key, int n, struct poly1305_limbs p)
{
	key->high44[0][n] = p.l0;
	key->high44[1][n] = p.l1;
	key->high44[2][n] = p.l2;
}

void poly1305_powers(struct poly1305_key *key)
{
	const struct poly1305_limbs p1 = poly1305_limbs_of_r(key);
	const struct poly1305_limbs p2 = poly1305_mul(p1, p1), p3 = poly1305_mul(p2, p1);
	const struct poly1305_limbs p4 = poly1305_mul(p2, p2), p8 = poly1305_mul(p4, p4);
	const struct poly1305_limbs p16 = poly1305_mul(p8, p8);

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
