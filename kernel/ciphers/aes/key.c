// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The AES key schedule (FIPS 197, 5.2) in constant time. A key must not leak during its expansion,
 * even though aes_generic, which may use it later, is not constant-time.
 */
#include <kiln/bitops.h>
#include <kiln/string.h>
#include <kiln/unaligned.h>

#include "aes.h"
#include "sbox_circuit.h"

#define BYTES(x) ((x) * 0x01010101u)

/*
 * Applies the S-box to the four bytes of @w. Shifting the word by i is enough to make plane i: bit
 * 0 of each byte is the plane, and the bits above it, which belong to other planes, are masked off
 * at the end.
 */
static u32 sub_word(u32 w)
{
	u64 q[8];
	u32 s = 0;
	int i;

#pragma GCC unroll 8
	for (i = 0; i < 8; i++)
		q[i] = w >> i;
	aes_sbox_circuit(q, q);
#pragma GCC unroll 8
	for (i = 0; i < 8; i++)
		s |= ((u32)q[i] & BYTES(0x01)) << i;
	return s ^ BYTES(AES_SBOX_AFFINE);
}

/* Multiplies each byte by x in GF(2^8). */
static __always_inline u32 xtime4(u32 w)
{
	u32 over = w >> 7 & BYTES(0x01);

	return (w & BYTES(0x7f)) << 1 ^ over * 0x1b;
}

/*
 * InvMixColumns of one column, computed as MixColumns of the column times {04}x^2 + {05} (their
 * product is FIPS 197's {0b}x^3 + {0d}x^2 + {09}x + {0e}).
 */
static __always_inline u32 inv_mix_column(u32 w)
{
	u32 pairs;

	w ^= xtime4(xtime4(w ^ ror32(w, 16)));
	pairs = w ^ ror32(w, 8);
	return xtime4(pairs) ^ ror32(w, 8) ^ ror32(pairs, 16);
}

static noinline int expand(struct aes_key *key, const u8 *raw, size_t len)
{
	size_t nk = len / 4;
	size_t words, i, at = 0;
	u32 rounds, r;
	u32 rcon = 1;
	u32 w;
	int c;

	if (len != 16 && len != 24 && len != 32)
		return -EINVAL;

	rounds = nk + 6;
	words = 4 * (rounds + 1);
	key->rounds = rounds;
	memcpy(key->enc, raw, len);

	w = get_le32(raw + len - 4);
	for (i = nk; i < words; i++) {
		if (at == 0) {
			w = sub_word(ror32(w, 8)) ^ rcon;
			rcon = xtime4(rcon);
		} else if (nk == 8 && at == 4) {
			w = sub_word(w);
		}
		w ^= get_le32((u8 *)key->enc + 4 * (i - nk));
		put_le32(w, (u8 *)key->enc + 4 * i);
		at = at + 1 == nk ? 0 : at + 1;
	}

	memcpy(key->dec[0], key->enc[rounds], AES_BLOCK_SIZE);
	for (r = 1; r < rounds; r++) {
		for (c = 0; c < AES_BLOCK_SIZE; c += 4) {
			w = get_le32(key->enc[rounds - r] + c);
			put_le32(inv_mix_column(w), key->dec[r] + c);
		}
	}
	memcpy(key->dec[rounds], key->enc[0], AES_BLOCK_SIZE);
	return 0;
}

int aes_expandkey(struct aes_key *key, const u8 *raw, size_t len)
{
	const int result = expand(key, raw, len);

	kiln_wipe_below();
	return result;
}
