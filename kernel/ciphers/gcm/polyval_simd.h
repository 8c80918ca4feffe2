/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * POLYVAL with vector registers. Part of gcm_simd.h.
 *
 * Products are summed up as they are, and the sum is reduced once: of each operation that
 * reduces, and of adding up the blocks of a vector, there is one for many blocks. Karatsuba's
 * way is three multiplications instead of four for two operations more on any port.
 */
#ifndef KILN_POLYVAL_SIMD_H
#define KILN_POLYVAL_SIMD_H

#include "../simd/rounds.h"
#include "polyval.h"

/* Sums of the products of lower halves, of upper halves, and of the sums of both. */
struct sums {
	vec_t lo, hi, mid;
};

static __always_inline const u8 *power(const struct polyval_key *key, size_t n)
{
	return (const u8 *)key->power[POLYVAL_POWERS - n];
}

/* Where row i of halves is, seen from row i of power. */
#define HALVES offsetof(struct polyval_key, halves)

#define MULTIPLY(g, OP, x, h, halves_)                                  \
	do {                                                            \
		const vec_t x_ = (x), h_ = (h);                         \
		OP((g)->lo, v_clmul(x_, h_, 0x00));                     \
		OP((g)->hi, v_clmul(x_, h_, 0x11));                     \
		OP((g)->mid, v_clmul(v_xor(x_, v_swap(x_)), halves_, 0x00)); \
	} while (0)
#define SET(sum, product) ((sum) = (product))
#define ADD(sum, product) ((sum) = v_xor(sum, product))

/* The vector @x with the powers at @p and behind. */
static __always_inline void mul_set(struct sums *g, vec_t x, const u8 *p)
{
	MULTIPLY(g, SET, x, v_load(p), v_load(p + HALVES));
}

static __always_inline void mul_add(struct sums *g, vec_t x, const u8 *p)
{
	MULTIPLY(g, ADD, x, v_load(p), v_load(p + HALVES));
}

/* One block with the one power at @p. */
static __always_inline void mul_set1(struct sums *g, __m128i x, const u8 *p)
{
	MULTIPLY(g, SET, v_one(x), v_one(load1(p)), v_one(load1(p + HALVES)));
}

static __always_inline void mul_add1(struct sums *g, __m128i x, const u8 *p)
{
	MULTIPLY(g, ADD, v_one(x), v_one(load1(p)), v_one(load1(p + HALVES)));
}

/* @a with the power at @p, @b with that at @q. */
static __always_inline void mul_set2(struct sums *g, __m128i a, const u8 *p, __m128i b,
				     const u8 *q)
{
#if VBLOCKS == 1
	mul_set1(g, a, p);
	mul_add1(g, b, q);
#else
	MULTIPLY(g, SET, v_pair(a, b), v_pair(load1(p), load1(q)),
		 v_pair(load1(p + HALVES), load1(q + HALVES)));
#endif
}

/*
 * All blocks of the sums, times x^-128. Each step divides by x^64: the halves change places,
 * and what is taken away of the lower one comes in above.
 */
static __always_inline __m128i reduce(const struct sums *g)
{
	const __m128i poly = _mm_set_epi64x(0, 0xc200000000000000);
	const __m128i lo = v_sum(g->lo), hi = v_sum(g->hi);
	__m128i mid = _mm_xor_si128(v_sum(g->mid), _mm_xor_si128(lo, hi));

	mid = _mm_xor_si128(mid, _mm_xor_si128(_mm_shuffle_epi32(lo, 0x4e),
					       _mm_clmulepi64_si128(lo, poly, 0x00)));
	return _mm_xor_si128(hi, _mm_xor_si128(_mm_shuffle_epi32(mid, 0x4e),
					       _mm_clmulepi64_si128(mid, poly, 0x00)));
}

/* Blocks at @data, each in reverse order if @ghash, added to @acc. */
static __always_inline __m128i hash_blocks(const struct polyval_key *key, __m128i acc,
					   const u8 *data, size_t blocks, const bool ghash)
{
	const vec_t order = v_key(reverse);
	const u8 *p;
	struct sums g;

#define DATA(j) (ghash ? v_shuffle(v_load(data + (j) * VBYTES), order) : \
			 v_load(data + (j) * VBYTES))
#define PART(j) mul_add(&g, DATA(j), p + (j) * VBYTES);
	p = power(key, 8 * VBLOCKS);
	for (; blocks > 8 * VBLOCKS; blocks -= 8 * VBLOCKS, data += 8 * VBYTES) {
		mul_set(&g, DATA(1), p + VBYTES);
		PART(2) PART(3) PART(4) PART(5) PART(6) PART(7)
		/* What the step before came to comes last. */
		mul_add(&g, v_xor(DATA(0), v_one(acc)), p);
		acc = reduce(&g);
	}
	p = power(key, blocks);
	mul_set1(&g, acc, p);
	for (; blocks >= VBLOCKS; blocks -= VBLOCKS, data += VBYTES, p += VBYTES)
		PART(0)
	for (; blocks; blocks--, data += AES_BLOCK_SIZE, p += AES_BLOCK_SIZE) {
		const __m128i x = load1(data);

		mul_add1(&g, ghash ? _mm_shuffle_epi8(x, v_first(order)) : x, p);
	}
#undef PART
#undef DATA
	return reduce(&g);
}

#endif
