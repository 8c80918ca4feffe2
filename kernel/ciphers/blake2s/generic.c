// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * BLAKE2s in general-purpose registers. Constant-time: it has no look-ups and no branches on data.
 */
#include <kiln/bitops.h>
#include <kiln/unaligned.h>

#include "blake2s.h"

/*
 * Runs the first or second half of G (RFC 7693) on all four columns or diagonals. The instructions
 * for the four are interleaved, because they are independent of each other.
 */
#define HALF(a, b, c, d, m, r1, r2)                                           \
	v##a += get_le32(data + 4 * (m));                                     \
	v##a += v##b;                                                         \
	v##d = ror32(v##d ^ v##a, r1);                                          \
	v##c += v##d;                                                         \
	v##b = ror32(v##b ^ v##c, r2);
#define G2(a, b, c, d, m0, m1, e, f, g, h, n0, n1)                            \
	HALF(a, b, c, d, m0, 16, 12)                                          \
	HALF(e, f, g, h, n0, 16, 12)                                          \
	HALF(a, b, c, d, m1, 8, 7)                                            \
	HALF(e, f, g, h, n1, 8, 7)
#define ROUND(m0, m1, m2, m3, m4, m5, m6, m7, m8, m9, ma, mb, mc, md, me, mf) \
	G2(0, 4, 8, 12, m0, m1, 1, 5, 9, 13, m2, m3)                          \
	G2(2, 6, 10, 14, m4, m5, 3, 7, 11, 15, m6, m7)                        \
	G2(0, 5, 10, 15, m8, m9, 1, 6, 11, 12, ma, mb)                        \
	G2(2, 7, 8, 13, mc, md, 3, 4, 9, 14, me, mf)

void blake2s_blocks_generic(u32 h[8], const u8 *data, size_t blocks, u64 bytes, u32 last)
{
	static const u32 iv[8] = BLAKE2S_IV;

	for (; blocks; blocks--, data += BLAKE2S_BLOCK_SIZE, bytes += BLAKE2S_BLOCK_SIZE) {
		u32 v0 = h[0], v1 = h[1], v2 = h[2], v3 = h[3];
		u32 v4 = h[4], v5 = h[5], v6 = h[6], v7 = h[7];
		u32 v8 = iv[0], v9 = iv[1], v10 = iv[2], v11 = iv[3];
		u32 v12 = iv[4] ^ (u32)bytes, v13 = iv[5] ^ (u32)(bytes >> 32);
		u32 v14 = iv[6] ^ last, v15 = iv[7];

		BLAKE2S_ROUNDS(ROUND)
		h[0] ^= v0 ^ v8;
		h[1] ^= v1 ^ v9;
		h[2] ^= v2 ^ v10;
		h[3] ^= v3 ^ v11;
		h[4] ^= v4 ^ v12;
		h[5] ^= v5 ^ v13;
		h[6] ^= v6 ^ v14;
		h[7] ^= v7 ^ v15;
	}
}
