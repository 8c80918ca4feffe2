/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SM3 with rounds in general-purpose registers (RORX) and the message expansion in vectors, which
 * hold four words of each of two blocks. The including file includes simd/two_lanes.h first and
 * defines:
 *
 *	MD_NAME(name)	full name of an entry point
 *	v_rol(v, n)	rotates each 32-bit word left by n
 *	v_p1(x)		x ^ rol32(x, 15) ^ rol32(x, 23)
 *	v_zero_64(p)	writes 64 zero bytes at p
 *
 * Each round depends on the previous one: the path from e to the next e consists of an addition, a
 * rotation by 7, another addition and P0, which is itself three operations deep. The path takes six
 * cycles, and everything else must be ready by then. Computing GG from the new e would take too
 * long, so GG is computed one step earlier, from the two operands of the last XOR in P0.
 *
 * Each word depends on the word three positions before it, so each step computes three words for
 * each of two blocks.
 * Vector a_k holds the words from 3(t + k) on, and vector g_k the words from 3(t + k) + 1 on, where
 * t is the number of the step. The fourth word of each vector is not used.
 */

#include <kiln/bitops.h>
#include <kiln/fpu_assert.h>

#include "../merkle_simd.h"
#include "sm3.h"

#define MD sm3_md
#define STEPS 20
/* Number of words after the last step, including the unused fourth word of the last vector. */
#define WORDS (16 + 3 * STEPS + 1)

struct schedule {
	struct {
		u32 w[WORDS + 3];	/* expanded message words */
		u32 x[WORDS + 3];	/* w[j] ^ w[j + 4] */
	} lane[LANES];
};

/* Returns, for each block, the words of @lo from word n on, followed by words of @hi. */
#define ALIGN(hi, lo, n) _mm256_alignr_epi8(hi, lo, 4 * (n))

struct vectors {
	vec_t a0, a1, a2, a3, a4, g2, g3, g4;
};

typedef u32 word_t;

/* Prevents the compiler from reordering the additions. */
#define IN_ORDER(v) __asm__("" : "+r"(v))

#define FF_XOR(a, b, c) ((a) ^ (b) ^ (c))
#define FF_MAJORITY(a, b, c) (((a) & (b)) | ((c) & ((a) | (b))))
/* Computes GG of f, g and the new e from the operands of e = y ^ z. */
#define GG_XOR(y, z, f, g) (((f) ^ (g) ^ (z)) ^ (y))
#define GG_CHOOSE(y, z, f, g) (((((f) ^ (g)) & (z)) ^ (g)) ^ (((f) ^ (g)) & (y)))

/* Runs one round. On entry, gg holds GG of this round; on exit, GG of the next round. */
#define ROUND(a, b, c, d, e, f, g, h, j, FF, GG) do {                         \
	const u32 a12 = rol32(a, 12);                                           \
	u32 ss1 = a12 + sm3_t[j], y, z;                                       \
										      \
	IN_ORDER(ss1);                                                        \
	ss1 = rol32(ss1 + e, 7);                                                \
	h += s->lane[lane].w[j];                                              \
	d += s->lane[lane].x[j];                                              \
	IN_ORDER(h);                                                          \
	h += gg;                                                              \
	d += FF(a, b, c);                                                     \
	IN_ORDER(h);                                                          \
	IN_ORDER(d);                                                          \
	h += ss1;                                                             \
	d += ss1 ^ a12;                                                       \
	b = rol32(b, 9);                                                        \
	f = rol32(f, 19);                                                       \
	z = rol32(h, 17);                                                       \
	y = rol32(h, 9) ^ h;                                                    \
	gg = GG(y, z, e, f);                                                  \
	IN_ORDER(gg);                                                         \
	h = y ^ z;                                                            \
} while (0)

#define FOUR(j, FF, GG, LAST)                                                 \
	ROUND(a, b, c, d, e, f, g, h, (j), FF, GG);                           \
	ROUND(d, a, b, c, h, e, f, g, (j) + 1, FF, GG);                       \
	ROUND(c, d, a, b, g, h, e, f, (j) + 2, FF, GG);                       \
	ROUND(b, c, d, a, f, g, h, e, (j) + 3, FF, LAST)

static __always_inline void step(struct vectors *v, struct schedule *s, const int t)
{
	const vec_t x = v_xor3(v->a0, v->g2, v_rol(v->g4, 15));
	const vec_t g5 = v_xor3(v_p1(x), v_rol(v->a1, 7), v->g3);
	const vec_t x4 = v_xor(v->a4, g5);
	vec_t a5;

	v_store_lane(0, &s->lane[0].w[3 * t + 16], g5);
	v_store_lane(0, &s->lane[0].x[3 * t + 12], x4);
	v_store_lane(1, &s->lane[1].w[3 * t + 16], g5);
	v_store_lane(1, &s->lane[1].x[3 * t + 12], x4);
	a5 = ALIGN(g5, ALIGN(v->g4, v->g4, 3), 3);
	v->a0 = v->a1;
	v->a1 = v->a2;
	v->a2 = v->a3;
	v->a3 = v->a4;
	v->a4 = a5;
	v->g2 = v->g3;
	v->g3 = v->g4;
	v->g4 = g5;
}

static __always_inline void begin(struct vectors *v, struct schedule *s, const u8 *data,
				  size_t stride)
{
	const vec_t w0 = v_swap32(v_load_lanes(data, stride)), w1 = v_swap32(v_load_lanes(data + 16, stride));
	const vec_t w2 = v_swap32(v_load_lanes(data + 32, stride));
	const vec_t w3 = v_swap32(v_load_lanes(data + 48, stride));
	const vec_t x0 = v_xor(w0, w1), x1 = v_xor(w1, w2), x2 = v_xor(w2, w3);

#define STORE(n)                                                              \
	v_store_lane(n, &s->lane[n].w[0], w0);                                     \
	v_store_lane(n, &s->lane[n].w[4], w1);                                     \
	v_store_lane(n, &s->lane[n].w[8], w2);                                     \
	v_store_lane(n, &s->lane[n].w[12], w3);                                    \
	v_store_lane(n, &s->lane[n].x[0], x0);                                     \
	v_store_lane(n, &s->lane[n].x[4], x1);                                     \
	v_store_lane(n, &s->lane[n].x[8], x2);
	STORE(0)
	STORE(1)
#undef STORE
	*v = (struct vectors){
		.a0 = w0, .a1 = ALIGN(w1, w0, 3), .a2 = ALIGN(w2, w1, 2),
		.a3 = ALIGN(w3, w2, 1), .a4 = w3,
		.g2 = ALIGN(w2, w1, 3), .g3 = ALIGN(w3, w2, 2), .g4 = ALIGN(w3, w3, 1),
	};
}

/*
 * Runs the rounds of one block. For lane 0, also expands two blocks: the one at @data and the one
 * at @data + @stride.
 */
static __always_inline void block(u32 *st, struct schedule *s, const int lane,
				  const u8 *data, const size_t stride)
{
	const bool expand = lane == 0;
	u32 a = st[0], b = st[1], c = st[2], d = st[3];
	u32 e = st[4], f = st[5], g = st[6], h = st[7];
	u32 gg = e ^ f ^ g;
	struct vectors v;
	int j, t;

#define STEP(t) do { if (expand) step(&v, s, t); } while (0)
	if (expand) {
		begin(&v, s, data, stride);
		/* Without the barrier, gcc would extract the words from the vectors one by one. */
		barrier();
	}
	STEP(0);
	FOUR(0, FF_XOR, GG_XOR, GG_XOR);
	STEP(1);
	FOUR(4, FF_XOR, GG_XOR, GG_XOR);
	STEP(2);
	FOUR(8, FF_XOR, GG_XOR, GG_XOR);
	STEP(3);
	FOUR(12, FF_XOR, GG_XOR, GG_CHOOSE);
	for (j = 16, t = 4; j < 64; j += 12, t += 4) {
		STEP(t);
		FOUR(j, FF_MAJORITY, GG_CHOOSE, GG_CHOOSE);
		STEP(t + 1);
		STEP(t + 2);
		FOUR(j + 4, FF_MAJORITY, GG_CHOOSE, GG_CHOOSE);
		STEP(t + 3);
		FOUR(j + 8, FF_MAJORITY, GG_CHOOSE, GG_CHOOSE);
	}
#undef STEP
	st[0] ^= a;
	st[1] ^= b;
	st[2] ^= c;
	st[3] ^= d;
	st[4] ^= e;
	st[5] ^= f;
	st[6] ^= g;
	st[7] ^= h;
}

/*
 * With at least this many blocks, it pays to use a loop that does not check whether another block
 * follows. This loop takes 424 cycles per block instead of 442 (Zen 5, gcc 12), but switching from
 * it to the other loop costs about 150 cycles once, for an unknown reason.
 */
#define MANY 16

static __always_inline void run(u32 *st, struct schedule *s, const u8 *data, size_t blocks,
				const u8 *last, size_t more)
{
	size_t i;

	for (i = 0; blocks >= MANY && i + LANES <= blocks; i += LANES) {
		block(st, s, 0, data + i * SM3_BLOCK, SM3_BLOCK);
		block(st, s, 1, data, 0);
	}
	/* If a single block remains, both lanes expand it. */
	for (; i < blocks + more; i += LANES) {
		const u8 *const one = md_block_at(&MD, data, blocks, last, i);
		const u8 *const two = md_block_at(&MD, data, blocks, last, i + 1);
		const bool alone = i + 1 == blocks + more;

		block(st, s, 0, one, alone ? 0 : (size_t)(two - one));
		if (alone)
			break;
		block(st, s, 1, two, 0);
	}
}

/* Wipes the schedule only: Kiln does not offer hmac(sm3), so the state never depends on a key. */
static __always_inline void wipe(struct schedule *s, u32 st[8])
{
	u8 *at;

	(void)st;
	for (at = (u8 *)s; at < (u8 *)(s + 1); at += 64)
		v_zero_64(at);
	__asm__ volatile("" : : "r"(s) : "memory");
}

#include "../merkle_entry.h"
