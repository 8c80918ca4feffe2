/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-2's rounds in general-purpose registers. Constant-time: no look-up or branch depends on the
 * data. The including file defines:
 *
 *	word_t		u32 or u64
 *	ROUNDS		number of rounds
 *	SHA2(name)	full name of a function or constant of the hash
 *	get_word(p)	the big-endian word at @p
 *	SIGMA0(a), SIGMA1(e), sigma0(w), sigma1(w)	FIPS 180-4, 4.1.2 or 4.1.3, with ror(v, n)
 */
static __always_inline word_t ror(word_t v, int n)
{
	return v >> n | v << (8 * (int)sizeof(v) - n);
}

void SHA2(blocks_generic)(void *state, const u8 *data, size_t blocks)
{
	word_t *const h = state;
	word_t w[16];

	for (; blocks; blocks--, data += SHA2(md).block) {
		word_t s[8];
		int i;

		md_copy_words(&SHA2(md), s, h);
		for (i = 0; i < 16; i++)
			w[i] = get_word(data + (int)sizeof(word_t) * i);
		for (i = 0; i < ROUNDS; i++) {
			const word_t e = s[4], a = s[0];
			word_t t1, t2;

			if (i >= 16) {
				const word_t w2 = w[(i - 2) & 15], w15 = w[(i - 15) & 15];

				w[i & 15] += w[(i - 7) & 15] + sigma1(w2) + sigma0(w15);
			}
			t1 = s[7] + SIGMA1(e) + (s[6] ^ (e & (s[5] ^ s[6]))) + SHA2(k)[i] +
			     w[i & 15];
			t2 = SIGMA0(a) + ((a & s[1]) | (s[2] & (a | s[1])));
			s[7] = s[6];
			s[6] = s[5];
			s[5] = s[4];
			s[4] = s[3] + t1;
			s[3] = s[2];
			s[2] = s[1];
			s[1] = s[0];
			s[0] = t1 + t2;
		}
		for (i = 0; i < 8; i++)
			h[i] += s[i];
		memzero_explicit(s, sizeof(s));
	}
	memzero_explicit(w, sizeof(w));
}
