/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-256 (WORD_BITS is 32) and SHA-512 (WORD_BITS is 64) with one message per lane. The including
 * file defines MD_NAME(name) and WORD_BITS after including one of simd/vec_*.h.
 *
 * Limits with AVX-512 on Zen 5, which starts four vector operations per cycle, at most two of which
 * are shifts or rotations. Each operation has a latency of two cycles:
 *
 * - Operations: each round takes 18 (6 rotations, 4 three-input operations, 8 additions) and each
 *   word after the 16th takes 11. A SHA-256 block takes 1680 operations, or 420 cycles, and a
 *   SHA-512 block takes 2144 operations, or 536 cycles.
 * - Latency: the dependency chains through a and e are three operations long (rotation, XOR,
 *   addition) and take six cycles per round, which is 384 cycles for SHA-256 and 480 for SHA-512.
 * - Loads: 64 blocks of 16 bytes are merged, byte-swapped and transposed. This takes 96 operations
 *   (24 cycles) for SHA-256 and 80 operations (20 cycles) for SHA-512.
 *
 * Together, operations and loads take 444 cycles per 1024 bytes with SHA-256 (0.43 cycles per byte)
 * and 556 cycles with SHA-512 (0.54 cycles per byte). A second set of lanes would gain nothing.
 */
#include "sha2.h"

#define ROR3(v, i, j, k) v_xor3(w_ror(v, i), w_ror(v, j), w_ror(v, k))
#define ROR2_SHR(v, i, j, k) v_xor3(w_ror(v, i), w_ror(v, j), w_shr(v, k))
#if WORD_BITS == 32
#define MD sha256_md
#define K sha256_k
#define SIGMA0(a) ROR3(a, 2, 13, 22)
#define SIGMA1(e) ROR3(e, 6, 11, 25)
#define WORD_SIGMA0(v) ROR2_SHR(v, 7, 18, 3)
#define WORD_SIGMA1(v) ROR2_SHR(v, 17, 19, 10)
#else
#define MD sha512_md
#define K sha512_k
#define SIGMA0(a) ROR3(a, 28, 34, 39)
#define SIGMA1(e) ROR3(e, 14, 18, 41)
#define WORD_SIGMA0(v) ROR2_SHR(v, 1, 8, 7)
#define WORD_SIGMA1(v) ROR2_SHR(v, 19, 61, 6)
#endif

/*
 * e' is computed first, and a' is derived from e' by correcting the terms that differ, so that the
 * last operation of each adds the term that is ready last.
 */
#define ROUND(a, b, c, d, e, f, g, h, i) do {                                 \
	vec_t s = w_sub(w_majority(a, b, c), d);                              \
										      \
	h = w_add(h, w_add(x[i], w_all(K[t + (i)])));                         \
	h = w_add(h, d);                                                      \
	IN_ORDER(h);                                                          \
	h = w_add(h, w_choose(e, f, g));                                      \
	IN_ORDER(h);                                                          \
	h = w_add(h, SIGMA1(e));                                              \
	IN_ORDER(h);                                                          \
	s = w_add(s, h);                                                      \
	IN_ORDER(s);                                                          \
	d = h;                                                                \
	h = w_add(s, SIGMA0(a));                                              \
} while (0)

/* Replaces word i with word i + 16. */
#define NEXT_WORD(i)                                                          \
	x[i] = w_add(w_add(x[i], WORD_SIGMA0(x[((i) + 1) & 15])),             \
		     w_add(x[((i) + 9) & 15], WORD_SIGMA1(x[((i) + 14) & 15])))
#define NO_WORD(i) do { } while (0)

#define EIGHT(i, WORD) do {                                                   \
	ROUND(a, b, c, d, e, f, g, h, (i) + 0); WORD((i) + 0);                \
	ROUND(h, a, b, c, d, e, f, g, (i) + 1); WORD((i) + 1);                \
	ROUND(g, h, a, b, c, d, e, f, (i) + 2); WORD((i) + 2);                \
	ROUND(f, g, h, a, b, c, d, e, (i) + 3); WORD((i) + 3);                \
	ROUND(e, f, g, h, a, b, c, d, (i) + 4); WORD((i) + 4);                \
	ROUND(d, e, f, g, h, a, b, c, (i) + 5); WORD((i) + 5);                \
	ROUND(c, d, e, f, g, h, a, b, (i) + 6); WORD((i) + 6);                \
	ROUND(b, c, d, e, f, g, h, a, (i) + 7); WORD((i) + 7);                \
} while (0)

#define STATE(F) F(0, a) F(1, b) F(2, c) F(3, d) F(4, e) F(5, f) F(6, g) F(7, h)
#define FEED_FORWARD(old, new) w_add(old, new)
#define RUN_ROUNDS do {                                                       \
	int t;                                                                \
									      \
	for (t = 0; t < (int)ARRAY_SIZE(K) - 16; t += 16) {                   \
		EIGHT(0, NEXT_WORD);                                          \
		EIGHT(8, NEXT_WORD);                                          \
	}                                                                     \
	EIGHT(0, NO_WORD);                                                    \
	EIGHT(8, NO_WORD);                                                    \
} while (0)

#include "../merkle_words.h"
