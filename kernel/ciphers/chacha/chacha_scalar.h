/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One block of ChaCha20's key stream in general-purpose registers, divided into steps that can be
 * placed between vector operations. The code has no look-ups and no branches on data.
 */
#ifndef KILN_CHACHA_SCALAR_H
#define KILN_CHACHA_SCALAR_H

#include <kiln/unaligned.h>

#include "../poly1305/poly1305.h"
#include "chacha.h"

/*
 * One step of two quarter rounds: a += b; d = (d ^ a) <<< n, and the same for e, f and h. It is
 * written in assembly because compilers would pack the four columns into one vector. Processing
 * two columns at a time uses only half of the words, so few words have to be kept in memory. The
 * statements are volatile to preserve this order, because a compiler that interleaves all four
 * columns keeps more words in memory (Zen 5, gcc 12: 270 cycles per block instead of 266, and 470
 * instead of 453 for a short authenticated message).
 */
#define CHACHA_STEP(a, b, d, e, f, h, n)                                                \
	__asm__ volatile("addl %[wb], %[wa]\n\taddl %[wf], %[we]\n\t"                    \
			 "xorl %[wa], %[wd]\n\txorl %[we], %[wh]\n\t"                    \
			 "roll %[by], %[wd]\n\troll %[by], %[wh]"                        \
			 : [wa] "+&r"(w##a), [wd] "+&r"(w##d), [we] "+&r"(w##e),            \
			   [wh] "+&r"(w##h)                                                \
			 : [wb] "r"(w##b), [wf] "r"(w##f), [by] "i"(n) : "cc")

#define CHACHA_TWO(a, b, c, d, e, f, g, h)                                              \
	CHACHA_STEP(a, b, d, e, f, h, 16);                                              \
	CHACHA_STEP(c, d, b, g, h, f, 12);                                              \
	CHACHA_STEP(a, b, d, e, f, h, 8);                                               \
	CHACHA_STEP(c, d, b, g, h, f, 7)

#define CHACHA_COLUMNS CHACHA_TWO(0, 4, 8, 12, 1, 5, 9, 13); CHACHA_TWO(2, 6, 10, 14, 3, 7, 11, 15)
#define CHACHA_DIAGONALS                                                                \
	CHACHA_TWO(0, 5, 10, 15, 1, 6, 11, 12); CHACHA_TWO(2, 7, 8, 13, 3, 4, 9, 14)

/* Declares the sixteen words of the initial state (RFC 8439, 2.3). @nonce has 12 bytes. */
#define CHACHA_WORDS(key, count, nonce)                                                 \
	static const u32 wc[4] = CHACHA_CONSTANTS;                                      \
	const u32 *const wk = (key)->word;                                              \
	const u8 *const wn = nonce;                                                     \
	const u32 wcount = count;                                                       \
	u32 w0 = wc[0], w1 = wc[1], w2 = wc[2], w3 = wc[3];                             \
	u32 w4 = wk[0], w5 = wk[1], w6 = wk[2], w7 = wk[3];                             \
	u32 w8 = wk[4], w9 = wk[5], w10 = wk[6], w11 = wk[7];                           \
	u32 w12 = wcount, w13 = get_le32(wn), w14 = get_le32(wn + 4), w15 = get_le32(wn + 8)

/* Adds the initial state and stores the words in host byte order, which is little-endian. */
#define CHACHA_PUT(out)                                                                 \
	do {                                                                            \
		put_le32(w0 + wc[0], out);                                              \
		put_le32(w1 + wc[1], (out) + 4);                                        \
		put_le32(w2 + wc[2], (out) + 8);                                        \
		put_le32(w3 + wc[3], (out) + 12);                                       \
		put_le32(w4 + wk[0], (out) + 16);                                       \
		put_le32(w5 + wk[1], (out) + 20);                                       \
		put_le32(w6 + wk[2], (out) + 24);                                       \
		put_le32(w7 + wk[3], (out) + 28);                                       \
		put_le32(w8 + wk[4], (out) + 32);                                       \
		put_le32(w9 + wk[5], (out) + 36);                                       \
		put_le32(w10 + wk[6], (out) + 40);                                      \
		put_le32(w11 + wk[7], (out) + 44);                                      \
		put_le32(w12 + wcount, (out) + 48);                                     \
		put_le32(w13 + get_le32(wn), (out) + 52);                               \
		put_le32(w14 + get_le32(wn + 4), (out) + 56);                           \
		put_le32(w15 + get_le32(wn + 8), (out) + 60);                           \
	} while (0)

/*
 * Takes the key of Poly1305 from the block. The words are paired in registers, because an
 * eight-byte load from two four-byte stores would wait until both stores are in the cache.
 */
#define CHACHA_PAIR(a, b) ((u64)(u32)(a) | (u64)(u32)(b) << 32)
#define CHACHA_MAC_KEY(mac)                                                             \
	poly1305_set(mac, CHACHA_PAIR(w0 + wc[0], w1 + wc[1]),                          \
		     CHACHA_PAIR(w2 + wc[2], w3 + wc[3]),                               \
		     CHACHA_PAIR(w4 + wk[0], w5 + wk[1]),                               \
		     CHACHA_PAIR(w6 + wk[2], w7 + wk[3]))

static __always_inline void chacha_block_scalar(const struct chacha_key *key, u32 counter,
						const u8 *nonce, u8 *out)
{
	CHACHA_WORDS(key, counter, nonce);
	int i;

	for (i = 0; i < 10; i++) {
		CHACHA_COLUMNS;
		CHACHA_DIAGONALS;
	}
	CHACHA_PUT(out);
}

#endif
