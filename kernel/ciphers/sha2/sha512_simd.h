/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-512 with rounds in general-purpose registers (RORX) and the message schedule in vectors,
 * which hold two words of each of two blocks. The including file includes simd/two_lanes.h first
 * and defines:
 *
 *	MD_NAME(name)	full name of an entry point
 *	v_sigma0(v), v_sigma1(v)	FIPS 180-4, 4.1.3
 *
 * The schedule is a dependency chain: each pair of words depends on the previous pair, with a
 * latency of about ten cycles but few operations. The schedules of two blocks are therefore
 * computed together, between the rounds of the first block; the rounds of the second block read
 * their words from memory.
 */

#include <kiln/fpu_assert.h>

#include "../merkle_simd.h"
#include "sha2.h"

#define MD sha512_md
#define PAIRS 40

/* Message words plus round constants, in pairs, for all lanes. */
struct schedule {
	u64 kw[PAIRS][LANES][2];
};

typedef u64 word_t;

#define SIGMA0(a) (ror(a, 28) ^ ror(a, 34) ^ ror(a, 39))
#define SIGMA1(e) (ror(e, 14) ^ ror(e, 18) ^ ror(e, 41))

#include "rounds.h"

#define KW(pair, i) s->kw[(pair)][lane][i]

#define TWO(a, b, c, d, e, f, g, h, pair) do {                                \
	ROUND(a, b, c, d, e, f, g, h, KW(pair, 0));                           \
	ROUND(h, a, b, c, d, e, f, g, KW(pair, 1));                           \
} while (0)

/* Returns, in each lane, the upper word of @lo followed by the lower word of @hi. */
#define NEXT(hi, lo) _mm256_alignr_epi8(hi, lo, 8)

/* Computes words 2 * pair and 2 * pair + 1 from the sixteen before them, which are in x0 ... x7. */
#define SCHEDULE(x0, x1, x4, x5, x7, pair) do {                               \
	x0 = _mm256_add_epi64(_mm256_add_epi64(x0, NEXT(x5, x4)),                                 \
		   v_sigma0(NEXT(x1, x0)));                                 \
	__asm__("" : "+x"(x0));                                               \
	x0 = _mm256_add_epi64(x0, v_sigma1(x7));                                         \
	*(vec_t *)s->kw[pair] = _mm256_add_epi64(x0, v_both(sha512_k + 2 * (pair)));      \
} while (0)

#define NONE(i)
#define SIXTEEN(EACH, pair) do {                                              \
	EACH(0) TWO(a, b, c, d, e, f, g, h, (pair));                          \
	EACH(1) TWO(g, h, a, b, c, d, e, f, (pair) + 1);                      \
	EACH(2) TWO(e, f, g, h, a, b, c, d, (pair) + 2);                      \
	EACH(3) TWO(c, d, e, f, g, h, a, b, (pair) + 3);                      \
	EACH(4) TWO(a, b, c, d, e, f, g, h, (pair) + 4);                      \
	EACH(5) TWO(g, h, a, b, c, d, e, f, (pair) + 5);                      \
	EACH(6) TWO(e, f, g, h, a, b, c, d, (pair) + 6);                      \
	EACH(7) TWO(c, d, e, f, g, h, a, b, (pair) + 7);                      \
} while (0)

/* Runs the rounds of the first block and computes the message schedules of both blocks. */
static __always_inline void first_block(u64 *st, struct schedule *s, const u8 *data,
					const size_t lane_stride)
{
	const int lane = 0;
	vec_t x0, x1, x2, x3, x4, x5, x6, x7;
	int pair;

	STATE_IN;
#define LOAD(i)                                                               \
	x##i = v_swap64(v_load_lanes(data + 16 * i, lane_stride));              \
	*(vec_t *)s->kw[i] = _mm256_add_epi64(x##i, v_both(sha512_k + 2 * i));
	LOAD(0) LOAD(1) LOAD(2) LOAD(3) LOAD(4) LOAD(5) LOAD(6) LOAD(7)
#undef LOAD
#define MAKE_0 SCHEDULE(x0, x1, x4, x5, x7, pair + 8);
#define MAKE_1 SCHEDULE(x1, x2, x5, x6, x0, pair + 9);
#define MAKE_2 SCHEDULE(x2, x3, x6, x7, x1, pair + 10);
#define MAKE_3 SCHEDULE(x3, x4, x7, x0, x2, pair + 11);
#define MAKE_4 SCHEDULE(x4, x5, x0, x1, x3, pair + 12);
#define MAKE_5 SCHEDULE(x5, x6, x1, x2, x4, pair + 13);
#define MAKE_6 SCHEDULE(x6, x7, x2, x3, x5, pair + 14);
#define MAKE_7 SCHEDULE(x7, x0, x3, x4, x6, pair + 15);
#define MAKE(i) MAKE_##i
	for (pair = 0; pair < 32; pair += 8)
		SIXTEEN(MAKE, pair);
	SIXTEEN(NONE, pair);
	STATE_OUT;
}

static __always_inline void other_block(u64 *st, const struct schedule *s, const int lane)
{
	int pair;

	STATE_IN;
	for (pair = 0; pair < PAIRS; pair += 8)
		SIXTEEN(NONE, pair);
	STATE_OUT;
}

#include "two_blocks.h"
