/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Hashes one message per vector lane: the template for SHA-1, SHA-2 and SM3.
 *
 * The including file defines, after one of simd/vec_*.h:
 *
 *	MD, MD_NAME(name)	as for merkle_lanes.h
 *	WORD_BITS	32 or 64
 *	STATE(F)	F(i, v) for each word of the state, where i is the index of the word and v
 *			is the variable that holds it
 *	RUN_ROUNDS	a statement that runs all rounds of a block; it reads and overwrites the
 *			block's words x[0] ... x[15]
 *	FEED_FORWARD(old, new)	the sum (SHA) or XOR (SM3) of a state word before and after the
 *			rounds
 */
#include "simd/words.h"

#define LOAD_STATE(i, v) vec_t v = st[i];
#define STORE_STATE(i, v) v = st[i] = FEED_FORWARD(st[i], v);

static noinline void run_lanes(word_t *state, const u8 *const *src, size_t blocks)
{
	const size_t bytes = blocks * MD.block;
	vec_t *const st = (vec_t *)state;
	vec_t x[16];
	size_t o;
	STATE(LOAD_STATE)

	for (o = 0; o < bytes; o += MD.block) {
		load_words(x, src, o);
		RUN_ROUNDS;
		STATE(STORE_STATE)
	}
}

#include "merkle_lanes.h"
