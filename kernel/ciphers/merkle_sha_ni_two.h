/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Two messages at a time with the SHA instructions. On Zen 5, SHA256RNDS2 has a latency of four
 * cycles, and one can start every other cycle. The rounds of a single message therefore leave the
 * unit idle half of the time. The limit for two messages is 128 cycles per two blocks, or 1.0
 * cycles per byte. Both chains are then at their latency limit, so every delay costs time. In
 * practice, two blocks take 160 cycles, or 172 if the messages take turns every four rounds instead
 * of every two. A single SHA-1 message takes 122 cycles per block, six per SHA1RNDS4. Its chain
 * limits two messages to 122 cycles per two blocks, or 0.95 cycles per byte; in practice, they take
 * 1.12.
 *
 * The including file defines, besides what merkle_sha_ni.h needs:
 *
 *	ROUNDS_OF_TWO(i, w)	runs ROUNDS for both messages: on the state registers x0 and y0
 *				with the words w##0, and on x1 and y1 with w##1
 *	LAST_ROUNDS(FOUR)	calls FOUR(), which runs four groups of four rounds, once for each
 *				16 rounds after the first 16
 *	WORDS(x, y)	a struct words made of the two registers
 *	FIRST(s), SECOND(s)	the first and second register of the struct words @s
 *	ADD_STATE(x, y, x_in, y_in)	adds the state x_in, y_in, from before the block, to x, y
 *	words_store(s, h)	converts the state to memory order
 */
#define SCHEDULE_TWO(a, b, c, d) do {                                         \
	SCHEDULE(a##0, b##0, c##0, d##0);                                     \
	SCHEDULE(a##1, b##1, c##1, d##1);                                     \
} while (0)
#define FOUR_OF_TWO(i) do {                                                   \
	SCHEDULE_TWO(a, b, c, d);                                             \
	ROUNDS_OF_TWO(i, a);                                                  \
	SCHEDULE_TWO(b, c, d, a);                                             \
	ROUNDS_OF_TWO((i) + 1, b);                                            \
	SCHEDULE_TWO(c, d, a, b);                                             \
	ROUNDS_OF_TWO((i) + 2, c);                                            \
	SCHEDULE_TWO(d, a, b, c);                                             \
	ROUNDS_OF_TWO((i) + 3, d);                                            \
} while (0)
#define LOAD_OF(n, i) _mm_shuffle_epi8(md_load16(src[n] + o + 16 * (i)), swap)

typedef u32 word_t;

#define LANES 2
#define AT(lane, word) (8 * (lane) + (word))

static noinline void run_lanes(u32 *h, const u8 *const *src, size_t blocks)
{
	const struct words s0 = words_in((const void *)h);
	const struct words s1 = words_in((const void *)(h + 8));
	const size_t bytes = blocks * MD.block;
	const __m128i swap = swap_bytes();
	__m128i x0 = FIRST(s0), y0 = SECOND(s0), x1 = FIRST(s1), y1 = SECOND(s1);
	size_t o;

	for (o = 0; o < bytes; o += MD.block) {
		const __m128i x0_in = x0, y0_in = y0, x1_in = x1, y1_in = y1;
		__m128i a0 = LOAD_OF(0, 0), a1 = LOAD_OF(1, 0);
		__m128i b0 = LOAD_OF(0, 1), b1 = LOAD_OF(1, 1);
		__m128i c0 = LOAD_OF(0, 2), c1 = LOAD_OF(1, 2);
		__m128i d0 = LOAD_OF(0, 3), d1 = LOAD_OF(1, 3);

		ROUNDS_OF_TWO(0, a);
		ROUNDS_OF_TWO(1, b);
		ROUNDS_OF_TWO(2, c);
		ROUNDS_OF_TWO(3, d);
		LAST_ROUNDS(FOUR_OF_TWO);
		ADD_STATE(x0, y0, x0_in, y0_in);
		ADD_STATE(x1, y1, x1_in, y1_in);
	}
	words_store(WORDS(x0, y0), h);
	words_store(WORDS(x1, y1), h + 8);
}

#define v_end() do { } while (0)

#include "merkle_lanes.h"
