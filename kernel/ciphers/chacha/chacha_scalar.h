/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* One block of ChaCha20's key stream in general registers. No look-up, no branch on data. */
#ifndef KILN_CHACHA_SCALAR_H
#define KILN_CHACHA_SCALAR_H

#include <kiln/unaligned.h>

#include "chacha.h"

static __always_inline u32 chacha_rol(u32 v, int n)
{
	return v << n | v >> (32 - n);
}

/* a += b; d = (d ^ a) <<< n, of four columns or diagonals */
#define CHACHA_STEP(a0, a1, a2, a3, b0, b1, b2, b3, d0, d1, d2, d3, n)                  \
	x##a0 += x##b0, x##a1 += x##b1, x##a2 += x##b2, x##a3 += x##b3;                 \
	x##d0 = chacha_rol(x##d0 ^ x##a0, n), x##d1 = chacha_rol(x##d1 ^ x##a1, n);     \
	x##d2 = chacha_rol(x##d2 ^ x##a2, n), x##d3 = chacha_rol(x##d3 ^ x##a3, n)

#define CHACHA_ROUND(b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3)                    \
	CHACHA_STEP(0, 1, 2, 3, b0, b1, b2, b3, d0, d1, d2, d3, 16);                    \
	CHACHA_STEP(c0, c1, c2, c3, d0, d1, d2, d3, b0, b1, b2, b3, 12);                \
	CHACHA_STEP(0, 1, 2, 3, b0, b1, b2, b3, d0, d1, d2, d3, 8);                     \
	CHACHA_STEP(c0, c1, c2, c3, d0, d1, d2, d3, b0, b1, b2, b3, 7)

/* Into @out, as words of this machine, which is little-endian. */
static __always_inline void chacha_block_scalar(const struct chacha_key *key, u32 counter,
						const u8 *iv, void *out)
{
	const u32 n0 = get_le32(iv + 4), n1 = get_le32(iv + 8), n2 = get_le32(iv + 12);
	static const u32 c[4] = CHACHA_CONSTANTS;
	const u32 *k = key->word;
	u32 x0 = c[0], x1 = c[1], x2 = c[2], x3 = c[3];
	u32 x4 = k[0], x5 = k[1], x6 = k[2], x7 = k[3];
	u32 x8 = k[4], x9 = k[5], x10 = k[6], x11 = k[7];
	u32 x12 = counter, x13 = n0, x14 = n1, x15 = n2;
	u8 *o = out;
	int i;

	for (i = 0; i < 10; i++) {
		CHACHA_ROUND(4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
		CHACHA_ROUND(5, 6, 7, 4, 10, 11, 8, 9, 15, 12, 13, 14);
	}
	put_le32(x0 + c[0], o);
	put_le32(x1 + c[1], o + 4);
	put_le32(x2 + c[2], o + 8);
	put_le32(x3 + c[3], o + 12);
	put_le32(x4 + k[0], o + 16);
	put_le32(x5 + k[1], o + 20);
	put_le32(x6 + k[2], o + 24);
	put_le32(x7 + k[3], o + 28);
	put_le32(x8 + k[4], o + 32);
	put_le32(x9 + k[5], o + 36);
	put_le32(x10 + k[6], o + 40);
	put_le32(x11 + k[7], o + 44);
	put_le32(x12 + counter, o + 48);
	put_le32(x13 + n0, o + 52);
	put_le32(x14 + n1, o + 56);
	put_le32(x15 + n2, o + 60);
}

#endif
