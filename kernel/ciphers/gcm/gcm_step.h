/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A step of AES-GCM. It encrypts MAIN vectors of counters and, between the AES rounds, sums up the
 * same number of ciphertext vectors. Included by gcm_simd.h.
 *
 *	step_main	MAIN vectors
 *	step_half	8 vectors of counters, but 16 vectors of ciphertext; only if MAIN is 16
 */
#ifndef KILN_GCM_STEP_H
#define KILN_GCM_STEP_H

#include "../polyval/polyval_sums.h"
#include "gcm.h"

/*
 * The counter of a message's first block is 2. At the start of each step, the counter is m + 2,
 * where m is a multiple of the step's number of blocks. For every block i of the step except the
 * last two, adding i + 2 to m does not carry, so i + 2 can be XORed into a block that holds m.
 */
#define FIRST 2
#define STEP_BYTES (MAIN * VBYTES)
#define STEP_BLOCKS (MAIN * VBLOCKS)
#define NUMBER(i) { 0, (u64)(FIRST + (i)) << 56 },
#define NUMBERS4(i) NUMBER(i) NUMBER((i) + 1) NUMBER((i) + 2) NUMBER((i) + 3)
#define NUMBERS16(i) NUMBERS4(i) NUMBERS4((i) + 4) NUMBERS4((i) + 8) NUMBERS4((i) + 12)
static const u64 numbers[64][2] __aligned(64) = {
	NUMBERS16(0) NUMBERS16(16) NUMBERS16(32) NUMBERS16(48)
};

#define COUNT_STEP(j)                                                           \
	if (FIRST + ((j) + 1) * VBLOCKS <= STEP_BLOCKS)                         \
		d##j = v_xor(base, v_load(numbers[(j) * VBLOCKS]));             \
	else                                                                    \
		d##j = v_xor(k0, v_shuffle(v_add64(*next,                       \
			v_add64(v_number(), v_low64((j) * VBLOCKS))), order));
#define OUT(j)                                                                  \
	d##j = v_enclast(d##j, v_xor(k, v_load(src + j * VBYTES)));             \
	v_store(dst + j * VBYTES, d##j);
/* Writes the text, or the key stream if the step has no text. */
#define OUT_STEP(j)                                                             \
	if (text) {                                                             \
		OUT(j)                                                          \
	} else {                                                                \
		v_store(dst + j * VBYTES, v_enclast(d##j, k));                  \
	}

/* The sum of a step while it is being computed. */
struct weave {
	const u8 *cipher, *power;
	const u8 *ahead;	/* text of the next step to prefetch, or NULL */
	struct sums sum, even;	/* @even: products that wait for those of the next vector */
	vec_t x;	/* the vector being multiplied */
	__m128i acc;	/* input: the previous sum; output: with this step's vectors added */
};

#define CIPHER(j) v_shuffle(v_load(w->cipher + (j) * VBYTES), v_key(reverse))
#define POWER(j) v_load(w->power + (j) * VBYTES)
#if MAIN == 16
/*
 * Number of blocks that a step multiplies by powers of the key: 16 vectors. CLMUL_HALVES() reads
 * the sums of the powers' halves at UPPER_HALVES for the first eight vectors, and at HALVES for the
 * rest.
 */
#define WEAVE_BLOCKS 64
#define CLMUL_HALVES(j, x)                                                      \
	((j) < 8 ? v_clmul(x, v_load(w->power + (j) * VBYTES + UPPER_HALVES), 0x10) : \
		   v_clmul(x, v_load(w->power + (j) * VBYTES + HALVES), 0x00))

/*
 * Runs slot number @slot: one multiplication or one part of the reduction. The first vector is
 * multiplied last, because the previous sum is added to it.
 */
#define WEAVE_SLOTS 52
static __always_inline void weave_slot(struct weave *w, const int slot)
{
	const vec_t poly = v_all(_mm_set_epi64x(0, 0xc200000000000000));
	const int j = (slot / 3 + 1) % 16, part = slot % 3;
	vec_t *const sum = part == 0 ? &w->sum.lo : part == 1 ? &w->sum.hi : &w->sum.mid;
	vec_t *const even = part == 0 ? &w->even.lo : part == 1 ? &w->even.hi : &w->even.mid;
	vec_t product;

	/* Keep the loads here: hoisting them would need more registers than the CPU has. */
	barrier();
	if (slot < 48) {
		if (part == 0) {
			if (w->ahead)
				_mm_prefetch((const char *)w->ahead + slot / 3 * VBYTES,
					     _MM_HINT_T0);
			w->x = CIPHER(j);
			if (j == 0)
				w->x = v_xor(w->x, v_one(w->acc));
			product = v_clmul(w->x, POWER(j), 0x00);
		} else if (part == 1) {
			product = v_clmul(w->x, POWER(j), 0x11);
		} else {
			product = CLMUL_HALVES(j, v_xor(w->x, v_swap(w->x)));
		}
		/* Use one three-way XOR for every two products. */
		if (slot / 3 % 2 == 0)
			*even = product;
		else if (slot < 6)
			*sum = v_xor(*even, product);
		else
			*sum = v_xor3(*sum, *even, product);
	} else if (slot == 48) {
		w->x = v_clmul(w->sum.lo, poly, 0x00);
		w->sum.mid = v_xor3(w->sum.mid, w->sum.lo, w->sum.hi);
	} else if (slot == 49) {
		w->sum.mid = v_xor3(w->sum.mid, v_swap(w->sum.lo), w->x);
	} else if (slot == 50) {
		w->x = v_clmul(w->sum.mid, poly, 0x00);
	} else {
		w->acc = v_sum(v_xor3(w->sum.hi, v_swap(w->sum.mid), w->x));
	}
	barrier();
}

/*
 * Runs F on each quarter of the vectors in turn, and one slot with S after each quarter. SLOT()
 * does nothing if the step has no ciphertext to sum up.
 */
#define QUARTERS_8(F, S, i)                                                           \
	F(0) F(1) S(i) F(2) F(3) S((i) + 1) F(4) F(5) S((i) + 2) F(6) F(7) S((i) + 3)
#define QUARTERS_16(F, S, i)                                                          \
	F(0) F(1) F(2) F(3) S(i) F(4) F(5) F(6) F(7) S((i) + 1)                       \
	F(8) F(9) F(10) F(11) S((i) + 2) F(12) F(13) F(14) F(15) S((i) + 3)
#define SLOT(i)                                 \
	if (cipher && (i) < WEAVE_SLOTS)        \
		weave_slot(w, i);
#define SLOTS_4(i) SLOT(i) SLOT((i) + 1) SLOT((i) + 2) SLOT((i) + 3)
#define WOVEN_ROUND(r, QUARTERS, i)             \
	do {                                    \
		const vec_t k = KEY(r);         \
		QUARTERS(ENC, SLOT, i)          \
	} while (0)
/*
 * Runs two rounds that only longer keys have. For shorter keys, runs only the slots of these
 * rounds.
 */
#define WOVEN_MORE(more, QUARTERS, i)                   \
	do {                                            \
		if (more) {                             \
			WOVEN_ROUND(1, QUARTERS, i);    \
			WOVEN_ROUND(2, QUARTERS, (i) + 4); \
			rk += 2 * VBYTES;               \
		} else {                                \
			SLOTS_4(i) SLOTS_4((i) + 4)     \
		}                                       \
	} while (0)
#define WOVEN_STEP(n, EACH)                                                     \
	do {                                                                    \
		WOVEN_MORE(likely(rounds > 12), QUARTERS_##n, 0);               \
		WOVEN_MORE(likely(rounds > 10), QUARTERS_##n, 8);               \
		WOVEN_ROUND(1, QUARTERS_##n, 16);                               \
		WOVEN_ROUND(2, QUARTERS_##n, 20);                               \
		WOVEN_ROUND(3, QUARTERS_##n, 24);                               \
		WOVEN_ROUND(4, QUARTERS_##n, 28);                               \
		WOVEN_ROUND(5, QUARTERS_##n, 32);                               \
		WOVEN_ROUND(6, QUARTERS_##n, 36);                               \
		WOVEN_ROUND(7, QUARTERS_##n, 40);                               \
		WOVEN_ROUND(8, QUARTERS_##n, 44);                               \
		WOVEN_ROUND(9, QUARTERS_##n, 48);                               \
	} while (0)
#else
/*
 * With only 16 registers, none is free to hold a pending product. Each product is therefore added
 * at once, and the order of the instructions is left to the compiler.
 */
#define WEAVE_BLOCKS (8 * VBLOCKS)
#define WEAVE_ROUND(r)                                                                \
	do {                                                                          \
		if (cipher && (r) == 1)                                               \
			mul_set(&w->sum, CIPHER(1), w->power + VBYTES);               \
		if (cipher && 1 < (r) && (r) < 8)                                     \
			mul_add(&w->sum, CIPHER(r), w->power + (r) * VBYTES);         \
		if (cipher && (r) == 8)                                               \
			mul_add(&w->sum, v_xor(CIPHER(0), v_one(w->acc)), w->power);  \
		if (cipher && (r) == 9)                                               \
			w->acc = reduce(&w->sum);                                     \
	} while (0)
#define WOVEN_STEP(n, EACH) ROUNDS(EACH, WEAVE_ROUND)
#endif

/*
 * Defines a step function. The counters start from @next, which holds the same number in all
 * blocks. If @cipher is not NULL, the step adds the ciphertext vectors at @cipher to @acc; they can
 * be its own vectors or those of the previous step.
 */
#define STEP_FUNC(name, n, EACH)                                                      \
static __always_inline __m128i step_##name(const struct gcm_key *key, const u8 *rk,   \
					   u8 *dst, const u8 *src, vec_t *next,       \
					   const u8 *cipher, const bool text, __m128i acc) \
{                                                                                     \
	const bool wide = true, decrypt = false;                                      \
	const u32 rounds = key->aes.rounds;                                           \
	const vec_t order = v_key(reverse), k0 = KEY(0);                              \
	const vec_t base = v_xor(k0, v_shuffle(v_add64(*next, v_low64(-FIRST)), order)); \
	struct weave weave = {                                                        \
		.cipher = cipher, .power = power(&key->h, WEAVE_BLOCKS), .acc = acc,  \
		.ahead = cipher != src && text ? src + STEP_BYTES : NULL,             \
	}, *const w = &weave;                                                         \
	u8 *keep = NULL;                                                              \
	EACH(DECLARE)                                                                 \
										      \
	(void)keep;                                                                   \
	(void)decrypt;                                                                \
	EACH(COUNT_STEP)                                                              \
	*next = v_add64(*next, v_low64((n) * VBLOCKS));                               \
	WOVEN_STEP(n, EACH);                                                          \
	do {                                                                          \
		const vec_t k = LAST_KEY;                                             \
		EACH(OUT_STEP)                                                        \
	} while (0);                                                                  \
	return w->acc;                                                                \
}
#if MAIN == 16
STEP_FUNC(main, 16, EACH_16)
STEP_FUNC(half, 8, EACH_8)
#else
STEP_FUNC(main, 8, EACH_8)
#endif

#endif
