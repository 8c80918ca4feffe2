/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SM3 with one message per lane. The including file defines MD_NAME(name) after including one of
 * simd/vec_*.h.
 *
 * Limits with AVX-512 on Zen 5, whose instruction rates are in sha2_lanes.h. Together, 19
 * operations per round and 7 for each of the 52 words after the 16th make 1580 operations, or 395
 * cycles per block. Latency is the tighter limit. The dependency chain through e consists of an
 * addition, a rotation, an addition and P0 (a rotation and an XOR), and takes ten cycles per round.
 * This makes 640 cycles per 1024 bytes, or 0.63 cycles per byte.
 */
#define WORD_BITS 32

#include "sm3.h"

#define MD sm3_md

#define XOR(x, y, z) v_xor3(x, y, z)
#define P0(v) v_xor3(v, w_rol(v, 9), w_rol(v, 17))
#define P1(v) v_xor3(v, w_rol(v, 15), w_rol(v, 23))

#define ROUND(a, b, c, d, e, f, g, h, FF, GG, i) do {                         \
	const vec_t a12 = w_rol(a, 12), w = x[(i) & 15];                      \
	vec_t ss1 = w_add(a12, w_all(sm3_t[t + (i)]));                        \
										      \
	IN_ORDER(ss1);                                                        \
	ss1 = w_rol(w_add(ss1, e), 7);                                        \
	h = w_add(w_add(h, w), GG(e, f, g));                                  \
	d = w_add(w_add(d, v_xor(w, x[((i) + 4) & 15])), FF(a, b, c));        \
	IN_ORDER(h);                                                          \
	IN_ORDER(d);                                                          \
	h = w_add(h, ss1);                                                    \
	d = w_add(d, v_xor(ss1, a12));                                        \
	b = w_rol(b, 9);                                                      \
	f = w_rol(f, 19);                                                     \
	h = P0(h);                                                            \
} while (0)

/* Replaces word i - 12 with word i + 4, which is first used in round i. */
#define NEXT_WORD(i) do {                                                     \
	const vec_t p = v_xor3(x[((i) + 4) & 15], x[((i) + 11) & 15],         \
			       w_rol(x[((i) + 1) & 15], 15));                 \
										      \
	x[((i) + 4) & 15] = v_xor3(P1(p), w_rol(x[((i) + 7) & 15], 7),        \
				   x[((i) + 14) & 15]);                       \
} while (0)
#define NO_WORD(i) do { } while (0)

#define FOUR(FF, GG, WORD, i) do {                                            \
	WORD((i) + 0); ROUND(a, b, c, d, e, f, g, h, FF, GG, (i) + 0);        \
	WORD((i) + 1); ROUND(d, a, b, c, h, e, f, g, FF, GG, (i) + 1);        \
	WORD((i) + 2); ROUND(c, d, a, b, g, h, e, f, FF, GG, (i) + 2);        \
	WORD((i) + 3); ROUND(b, c, d, a, f, g, h, e, FF, GG, (i) + 3);        \
} while (0)

#define STATE(F) F(0, a) F(1, b) F(2, c) F(3, d) F(4, e) F(5, f) F(6, g) F(7, h)
#define FEED_FORWARD(old, new) v_xor(old, new)
#define RUN_ROUNDS do {                                                       \
	int t = 0;                                                            \
									      \
	FOUR(XOR, XOR, NO_WORD, 0);                                           \
	FOUR(XOR, XOR, NO_WORD, 4);                                           \
	FOUR(XOR, XOR, NO_WORD, 8);                                           \
	FOUR(XOR, XOR, NEXT_WORD, 12);                                        \
	for (t = 16; t < 64; t += 16) {                                       \
		FOUR(w_majority, w_choose, NEXT_WORD, 0);                     \
		FOUR(w_majority, w_choose, NEXT_WORD, 4);                     \
		FOUR(w_majority, w_choose, NEXT_WORD, 8);                     \
		FOUR(w_majority, w_choose, NEXT_WORD, 12);                    \
	}                                                                     \
} while (0)

#include "../merkle_words.h"
