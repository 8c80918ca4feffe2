/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Sums of products in vector registers, used by POLYVAL (polyval_simd.h) and AES-GCM
 * (../gcm/gcm_simd.h). Include this after ../simd/rounds.h.
 *
 * Products are added up unreduced, and each sum is reduced once, so that many blocks share the cost
 * of the reduction and of adding up a vector's blocks. Karatsuba's method replaces one out of
 * every four multiplications with two operations that can run on any port.
 */
#ifndef KILN_POLYVAL_SUMS_H
#define KILN_POLYVAL_SUMS_H

#include "../simd/rounds.h"
#include "polyval.h"

/* The number of blocks in the longest sum that is reduced only once: eight vectors. */
#define SUM_BLOCKS (8 * VBLOCKS)
#define SUM_BYTES (8 * VBYTES)

static __always_inline size_t blocks_of(size_t len)
{
	return (len + AES_BLOCK_SIZE - 1) / AES_BLOCK_SIZE;
}

/*
 * Sums of products: @lo of the lower halves, @hi of the upper halves, and @mid of the sums of both
 * halves.
 */
struct sums {
	vec_t lo, hi, mid;
};

static __always_inline const u8 *power(const struct polyval_key *key, size_t n)
{
	return (const u8 *)key->power[POLYVAL_POWERS - n];
}

/*
 * Offset from a row of the key to the sum of the row's halves. With HALVES, the sum is in the lower
 * half of the word found there; with UPPER_HALVES, in the upper half.
 */
#define UPPER_HALVES offsetof(struct polyval_key, halves)
#define HALVES (UPPER_HALVES - POLYVAL_UPPER * AES_BLOCK_SIZE)

#define MULTIPLY(g, OP, x, h, halves_)                                  \
	do {                                                            \
		const vec_t x_ = (x), h_ = (h);                         \
		OP((g)->lo, v_clmul(x_, h_, 0x00));                     \
		OP((g)->hi, v_clmul(x_, h_, 0x11));                     \
		OP((g)->mid, v_clmul(v_xor(x_, v_swap(x_)), halves_, 0x00)); \
	} while (0)
#define SET(sum, product) ((sum) = (product))
#define ADD(sum, product) ((sum) = v_xor(sum, product))

/* Sets the sums to the products of the vector @x and the powers that start at @p. */
static __always_inline void mul_set(struct sums *g, vec_t x, const u8 *p)
{
	MULTIPLY(g, SET, x, v_load(p), v_load(p + HALVES));
}

static __always_inline void mul_add(struct sums *g, vec_t x, const u8 *p)
{
	MULTIPLY(g, ADD, x, v_load(p), v_load(p + HALVES));
}

/* Sets the sums to the products of one block and the power at @p. */
static __always_inline void mul_set1(struct sums *g, __m128i x, const u8 *p)
{
	MULTIPLY(g, SET, v_one(x), v_one(load1(p)), v_one(load1(p + HALVES)));
}

static __always_inline void mul_add1(struct sums *g, __m128i x, const u8 *p)
{
	MULTIPLY(g, ADD, v_one(x), v_one(load1(p)), v_one(load1(p + HALVES)));
}

/* Sets the sums to the products of @a and the power at @p, plus those of @b and the power at @q. */
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
 * Multiplies @x by the powers at @p and @y by the powers at @q, and adds the products to the sums.
 * This takes one three-way XOR for every two products.
 */
static __always_inline void mul_add_pair(struct sums *g, vec_t x, const u8 *p, vec_t y,
					 const u8 *q)
{
	const vec_t h = v_load(p), i = v_load(q);

	g->lo = v_xor3(g->lo, v_clmul(x, h, 0x00), v_clmul(y, i, 0x00));
	g->hi = v_xor3(g->hi, v_clmul(x, h, 0x11), v_clmul(y, i, 0x11));
	g->mid = v_xor3(g->mid, v_clmul(v_xor(x, v_swap(x)), v_load(p + HALVES), 0x00),
			v_clmul(v_xor(y, v_swap(y)), v_load(q + HALVES), 0x00));
}

static __always_inline void mul_set_pair(struct sums *g, vec_t x, const u8 *p, vec_t y,
					 const u8 *q)
{
	mul_set(g, x, p);
	mul_add(g, y, q);
}

/*
 * Reduces the sums, adds up all blocks, and multiplies by x^-128. Each step divides by x^64: it
 * exchanges the halves and adds the terms that eliminate the lower half. The reduction runs on all
 * blocks of the vectors at once; afterwards, only the blocks of one vector have to be added up
 * instead of those of three.
 */
static __always_inline __m128i reduce(const struct sums *g)
{
	const vec_t poly = v_all(_mm_set_epi64x(0, 0xc200000000000000));
	vec_t mid = v_xor3(g->mid, g->lo, g->hi);

	mid = v_xor3(mid, v_swap(g->lo), v_clmul(g->lo, poly, 0x00));
	return v_sum(v_xor3(g->hi, v_swap(mid), v_clmul(mid, poly, 0x00)));
}

/*
 * Hashes the blocks at @data, starting from the state @acc. If @ghash is set, the bytes of each
 * block are reversed first.
 */
static __always_inline __m128i hash_blocks(const struct polyval_key *key, __m128i acc,
					   const u8 *data, size_t blocks, const bool ghash)
{
	const vec_t order = v_key(reverse);
	const u8 *p;
	struct sums g;

#define DATA(j) (ghash ? v_shuffle(v_load(data + (j) * VBYTES), order) : \
			 v_load(data + (j) * VBYTES))
#define PAIR(i, j) \
	mul_add_pair(&g, DATA(i), p + (i) * VBYTES, DATA(j), p + (j) * VBYTES);
	p = power(key, 8 * VBLOCKS);
	for (; blocks > 8 * VBLOCKS; blocks -= 8 * VBLOCKS, data += 8 * VBYTES) {
		mul_set_pair(&g, DATA(1), p + VBYTES, DATA(2), p + 2 * VBYTES);
		PAIR(3, 4) PAIR(5, 6)
		/* The previous result is multiplied last, because it is ready last. */
		mul_add_pair(&g, DATA(7), p + 7 * VBYTES, v_xor(DATA(0), v_one(acc)), p);
		acc = reduce(&g);
	}
	p = power(key, blocks);
	mul_set1(&g, acc, p);
	for (; blocks >= VBLOCKS; blocks -= VBLOCKS, data += VBYTES, p += VBYTES)
		mul_add(&g, DATA(0), p);
	for (; blocks; blocks--, data += AES_BLOCK_SIZE, p += AES_BLOCK_SIZE) {
		const __m128i x = load1(data);

		mul_add1(&g, ghash ? _mm_shuffle_epi8(x, v_first(order)) : x, p);
	}
#undef PAIR
#undef DATA
	return reduce(&g);
}

#endif
