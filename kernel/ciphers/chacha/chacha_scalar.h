/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One block of ChaCha20's key stream in general-purpose registers, divided into steps that can be
 * placed between vector operations. The code has no look-ups and no branches on data.
 */
#ifndef KILN_CHACHA_SCALAR_H
#define KILN_CHACHA_SCALAR_H

#include <kiln/unaligned.h>

#include "chacha.h"

/* Written in assembly, because compilers would pack the four columns into one vector. */
#define CHACHA_MIX(d, a, n)                                                             \
	w##d ^= w##a;                                                                   \
	__asm__("roll %1, %0" : "+r"(w##d) : "i"(n) : "cc")

/* One step of four quarter rounds, for columns or diagonals: a += b; d = (d ^ a) <<< n. */
#define CHACHA_STEP(a0, a1, a2, a3, b0, b1, b2, b3, d0, d1, d2, d3, n)                  \
	w##a0 += w##b0, w##a1 += w##b1, w##a2 += w##b2, w##a3 += w##b3;                 \
	CHACHA_MIX(d0, a0, n); CHACHA_MIX(d1, a1, n);                                   \
	CHACHA_MIX(d2, a2, n); CHACHA_MIX(d3, a3, n)

#define CHACHA_ROUND(b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3)                    \
	CHACHA_STEP(0, 1, 2, 3, b0, b1, b2, b3, d0, d1, d2, d3, 16);                    \
	CHACHA_STEP(c0, c1, c2, c3, d0, d1, d2, d3, b0, b1, b2, b3, 12);                \
	CHACHA_STEP(0, 1, 2, 3, b0, b1, b2, b3, d0, d1, d2, d3, 8);                     \
	CHACHA_STEP(c0, c1, c2, c3, d0, d1, d2, d3, b0, b1, b2, b3, 7)

#define CHACHA_COLUMNS CHACHA_ROUND(4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define CHACHA_DIAGONALS CHACHA_ROUND(5, 6, 7, 4, 10, 11, 8, 9, 15, 12, 13, 14)

/* Declares the sixteen words of the initial state (RFC 8439, 2.3). */
#define CHACHA_WORDS(key, count, iv)                                                    \
	static const u32 wc[4] = CHACHA_CONSTANTS;                                      \
	const u32 *const wk = (key)->word;                                              \
	const u8 *const wn = (iv) + 4;                                                  \
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

static __always_inline void chacha_block_scalar(const struct chacha_key *key, u32 counter,
						const u8 *iv, u8 *out)
{
	CHACHA_WORDS(key, counter, iv);
	int i;

	for (i = 0; i < 10; i++) {
		CHACHA_COLUMNS;
		CHACHA_DIAGONALS;
	}
	CHACHA_PUT(out);
}

#endif
