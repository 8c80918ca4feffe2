/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-1 with one message per lane. The including file defines MD_NAME(name) after including one of
 * simd/vec_*.h.
 *
 * Limits with AVX-512 on Zen 5 (sha2_lanes.h gives the rates of the CPU): each round takes 7
 * operations and each word after the 16th takes 3, so a block takes 752 operations, or 188 cycles.
 * Loading the block takes another 24 cycles. The dependency chain through a consists of a rotation
 * and an addition, which take four cycles per round. This is the tighter limit: 320 cycles per 1024
 * bytes, or 0.31 cycles per byte.
 */
#define WORD_BITS 32

#include "sha1.h"

#define MD sha1_md

#define XOR(b, c, d) v_xor3(b, c, d)
#define ROUND(a, b, c, d, e, F, k, i) do {                                    \
	e = w_add(e, w_add(x[(i) & 15], k));                                  \
	e = w_add(e, F(b, c, d));                                             \
	IN_ORDER(e);                                                          \
	e = w_add(e, w_rol(a, 5));                                            \
	b = w_rol(b, 30);                                                     \
} while (0)
/* Replaces the word of round i - 16 with the word of round i. */
#define NEXT_WORD(i)                                                          \
	x[(i) & 15] = w_rol(v_xor(v_xor3(x[((i) + 13) & 15], x[((i) + 8) & 15], \
					 x[((i) + 2) & 15]), x[(i) & 15]), 1)
#define NO_WORD(i) do { } while (0)

#define FIVE(F, k, WORD, i) do {                                              \
	WORD((i) + 0); ROUND(a, b, c, d, e, F, k, (i) + 0);                   \
	WORD((i) + 1); ROUND(e, a, b, c, d, F, k, (i) + 1);                   \
	WORD((i) + 2); ROUND(d, e, a, b, c, F, k, (i) + 2);                   \
	WORD((i) + 3); ROUND(c, d, e, a, b, F, k, (i) + 3);                   \
	WORD((i) + 4); ROUND(b, c, d, e, a, F, k, (i) + 4);                   \
} while (0)
#define TWENTY(F, k, i) do {                                                  \
	FIVE(F, k, NEXT_WORD, i);                                             \
	FIVE(F, k, NEXT_WORD, (i) + 5);                                       \
	FIVE(F, k, NEXT_WORD, (i) + 10);                                      \
	FIVE(F, k, NEXT_WORD, (i) + 15);                                      \
} while (0)

#define STATE(F) F(0, a) F(1, b) F(2, c) F(3, d) F(4, e)
#define FEED_FORWARD(old, new) w_add(old, new)
#define RUN_ROUNDS do {                                                       \
	const vec_t k0 = w_all(0x5a827999), k1 = w_all(0x6ed9eba1);           \
	const vec_t k2 = w_all(0x8f1bbcdc), k3 = w_all(0xca62c1d6);           \
									      \
	FIVE(w_choose, k0, NO_WORD, 0);                                       \
	FIVE(w_choose, k0, NO_WORD, 5);                                       \
	FIVE(w_choose, k0, NO_WORD, 10);                                      \
	ROUND(a, b, c, d, e, w_choose, k0, 15);                               \
	NEXT_WORD(16); ROUND(e, a, b, c, d, w_choose, k0, 16);                \
	NEXT_WORD(17); ROUND(d, e, a, b, c, w_choose, k0, 17);                \
	NEXT_WORD(18); ROUND(c, d, e, a, b, w_choose, k0, 18);                \
	NEXT_WORD(19); ROUND(b, c, d, e, a, w_choose, k0, 19);                \
	TWENTY(XOR, k1, 20);                                                  \
	TWENTY(w_majority, k2, 40);                                           \
	TWENTY(XOR, k3, 60);                                                  \
} while (0)

#include "../merkle_words.h"

/* A single message runs in general-purpose registers, as its rounds depend on each other. */
void MD_NAME(blocks)(void *state, const u8 *data, size_t blocks)
{
	assert_fpu_section();
	sha1_blocks_generic(state, data, blocks);
}

void MD_NAME(end)(const void *state, const u8 *data, size_t len, u64 bytes, u8 *out)
{
	assert_fpu_section();
	sha1_end_generic(state, data, len, bytes, out);
}
