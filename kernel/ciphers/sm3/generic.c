// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * SM3's rounds in general-purpose registers. Constant-time: no look-up or branch depends on the
 * data.
 */
#include <kiln/bitops.h>

#include "sm3.h"

#define T(t, n) ((t) << (n) | (u32)(t) >> (32 - (n)))
#define T_LOW(n) T(0x79cc4519u, n)
#define T_HIGH(n) T(0x7a879d8au, n)
#define FOUR(T, n) T(n), T(n + 1), T(n + 2), T(n + 3)

const u32 sm3_t[64] __aligned(64) = {
	0x79cc4519, T_LOW(1), T_LOW(2), T_LOW(3),
	FOUR(T_LOW, 4), FOUR(T_LOW, 8), FOUR(T_LOW, 12),
	FOUR(T_HIGH, 16), FOUR(T_HIGH, 20), FOUR(T_HIGH, 24), FOUR(T_HIGH, 28),
	0x7a879d8a, T_HIGH(1), T_HIGH(2), T_HIGH(3),
	FOUR(T_HIGH, 4), FOUR(T_HIGH, 8), FOUR(T_HIGH, 12),
	FOUR(T_HIGH, 16), FOUR(T_HIGH, 20), FOUR(T_HIGH, 24), FOUR(T_HIGH, 28),
};

static __always_inline u32 p0(u32 x)
{
	return x ^ rol32(x, 9) ^ rol32(x, 17);
}

static __always_inline u32 p1(u32 x)
{
	return x ^ rol32(x, 15) ^ rol32(x, 23);
}

static __always_inline void round(u32 s[8], u32 ff, u32 gg, u32 t, u32 w, u32 w4)
{
	const u32 a12 = rol32(s[0], 12);
	const u32 ss1 = rol32(a12 + s[4] + t, 7);
	const u32 tt1 = ff + s[3] + (ss1 ^ a12) + (w ^ w4);
	const u32 tt2 = gg + s[7] + ss1 + w;

	s[3] = s[2];
	s[2] = rol32(s[1], 9);
	s[1] = s[0];
	s[0] = tt1;
	s[7] = s[6];
	s[6] = rol32(s[5], 19);
	s[5] = s[4];
	s[4] = p0(tt2);
}

void sm3_blocks_generic(void *state, const u8 *data, size_t blocks)
{
	u32 *const h = state;
	u32 w[68], s[8];
	int i;

	for (; blocks; blocks--, data += SM3_BLOCK) {
		md_copy_words(&sm3_md, s, h);
		for (i = 0; i < 16; i++)
			w[i] = get_be32(data + 4 * i);
		for (; i < 68; i++)
			w[i] = p1(w[i - 16] ^ w[i - 9] ^ rol32(w[i - 3], 15)) ^
			       rol32(w[i - 13], 7) ^ w[i - 6];
		for (i = 0; i < 16; i++)
			round(s, s[0] ^ s[1] ^ s[2], s[4] ^ s[5] ^ s[6], sm3_t[i], w[i],
			      w[i + 4]);
		for (; i < 64; i++)
			round(s, (s[0] & s[1]) | (s[2] & (s[0] | s[1])),
			      s[6] ^ (s[4] & (s[5] ^ s[6])), sm3_t[i], w[i], w[i + 4]);
		for (i = 0; i < 8; i++)
			h[i] ^= s[i];
	}
	memzero_explicit(s, sizeof(s));
	memzero_explicit(w, sizeof(w));
}

MD_END(sm3, generic)
