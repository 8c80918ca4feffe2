// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * SHA-1's rounds in general-purpose registers. Constant-time: no look-up or branch depends on the
 * data.
 */
#include <kiln/bitops.h>

#include "sha1.h"

struct words {
	u32 a, b, c, d, e;
};

static __always_inline void round(struct words *s, u32 f, u32 k, u32 w)
{
	const u32 a = rol32(s->a, 5) + f + s->e + k + w;

	s->e = s->d;
	s->d = s->c;
	s->c = rol32(s->b, 30);
	s->b = s->a;
	s->a = a;
}

static __always_inline u32 word(u32 w[16], int i)
{
	if (i >= 16)
		w[i & 15] = rol32(w[(i - 3) & 15] ^ w[(i - 8) & 15] ^ w[(i - 14) & 15] ^
				w[i & 15], 1);
	return w[i & 15];
}

static __always_inline u32 choose(u32 b, u32 c, u32 d)
{
	return d ^ (b & (c ^ d));
}

static __always_inline u32 majority(u32 b, u32 c, u32 d)
{
	return (b & c) | (d & (b | c));
}

void sha1_blocks_generic(void *state, const u8 *data, size_t blocks)
{
	u32 *const h = state;
	struct words s;
	u32 w[16];
	int i;

	for (; blocks; blocks--, data += SHA1_BLOCK) {
		s = (struct words){ h[0], h[1], h[2], h[3], h[4] };
		for (i = 0; i < 16; i++)
			w[i] = get_be32(data + 4 * i);
		for (i = 0; i < 20; i++)
			round(&s, choose(s.b, s.c, s.d), 0x5a827999, word(w, i));
		for (; i < 40; i++)
			round(&s, s.b ^ s.c ^ s.d, 0x6ed9eba1, word(w, i));
		for (; i < 60; i++)
			round(&s, majority(s.b, s.c, s.d), 0x8f1bbcdc, word(w, i));
		for (; i < 80; i++)
			round(&s, s.b ^ s.c ^ s.d, 0xca62c1d6, word(w, i));
		h[0] += s.a;
		h[1] += s.b;
		h[2] += s.c;
		h[3] += s.d;
		h[4] += s.e;
	}
	memzero_explicit(&s, sizeof(s));
	memzero_explicit(w, sizeof(w));
}

MD_END(sha1, generic)
