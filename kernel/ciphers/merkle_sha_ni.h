/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Code shared by SHA-1 and SHA-256 with the SHA instructions. The including file defines:
 *
 *	ROUNDS(i, w)	runs rounds 4i to 4i + 3 with the words @w
 *	SCHEDULE(w0, w1, w2, w3)	replaces w0 by words t ... t + 3; on entry, w0 to w3 hold
 *				words t - 16 ... t - 1
 *
 * and for the end of a message:
 *
 *	struct words	the state in the layout of the instructions
 *	words_in(h)	converts the state at @h to that layout
 *	run(s, data, blocks, swap)	hashes blocks; LOAD() reorders their bytes by @swap
 *	swap_bytes()	returns the PSHUFB pattern @swap
 *	put_digest(s, out, swap)	writes the digest
 */
#include <kiln/fpu_assert.h>

#include "merkle_simd.h"

#define FOUR(i) do {                                                          \
	SCHEDULE(w0, w1, w2, w3);                                             \
	ROUNDS(i, w0);                                                        \
	SCHEDULE(w1, w2, w3, w0);                                             \
	ROUNDS(i + 1, w1);                                                    \
	SCHEDULE(w2, w3, w0, w1);                                             \
	ROUNDS(i + 2, w2);                                                    \
	SCHEDULE(w3, w0, w1, w2);                                             \
	ROUNDS(i + 3, w3);                                                    \
} while (0)

#define LOAD(i) _mm_shuffle_epi8(md_load16(data + 16 * (i)), swap)
/* Runs the first 16 rounds and leaves their words in w0 to w3. */
#define FIRST_SIXTEEN                                                         \
	__m128i w0 = LOAD(0), w1 = LOAD(1), w2 = LOAD(2), w3 = LOAD(3);       \
									      \
	ROUNDS(0, w0);                                                        \
	ROUNDS(1, w1);                                                        \
	ROUNDS(2, w2);                                                        \
	ROUNDS(3, w3)

#define MD_END_SHA_NI(hash)                                                           \
void hash##_end_sha_ni(const void *state, const u8 *data, size_t len, u64 bytes, u8 *out) \
{                                                                                     \
	const __m128i swap = swap_bytes();                                            \
	u8 last[2 * MD_MAX_BLOCK] __aligned(64);                                      \
	const size_t rest = len % hash##_md.block;                                    \
	struct words s;                                                               \
	size_t more;                                                                  \
										      \
	assert_fpu_section();                                                         \
	/* Pad first, so that the padding overlaps with the rounds. */                \
	more = md_pad(&hash##_md, last, data + len - rest, rest, bytes);              \
	s = words_in(state);                                                          \
	run(&s, data, len / hash##_md.block, swap);                                   \
	run(&s, last, more, swap);                                                    \
	put_digest(&s, out, swap);                                                    \
	md_wipe(&hash##_md, last, more);                                              \
}
