// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * AES with table look-ups, like the kernel's generic AES code. It is the baseline for all other
 * implementations.
 *
 * Deliberately NOT constant-time: the addresses of the loads, and therefore the contents of the
 * cache, depend on the key and the data. Where that matters, use aes_fixed_time.
 */
#include <kiln/types.h>
#include <kiln/unaligned.h>

#include "aes.h"
#include "sbox.h"

/* Multiplication by constants in GF(2^8), usable in constant expressions. */
#define MUL2(v) ((v) << 1 ^ ((v) & 0x80 ? 0x11b : 0))
#define MUL4(v) MUL2(MUL2(v))
#define MUL8(v) MUL2(MUL4(v))

/* Packs rows 0 to 3 of a column into a word; row 0 is the first byte in memory. */
#define COLUMN(r0, r1, r2, r3) \
	((u32)(r0) | (u32)(r1) << 8 | (u32)(r2) << 16 | (u32)(r3) << 24)

/* What byte @v in row n of the state contributes to its column in (Inv)MixColumns. */
#define ENC0(v) COLUMN(MUL2(v), v, v, MUL2(v) ^ (v)),
#define ENC1(v) COLUMN(MUL2(v) ^ (v), MUL2(v), v, v),
#define ENC2(v) COLUMN(v, MUL2(v) ^ (v), MUL2(v), v),
#define ENC3(v) COLUMN(v, v, MUL2(v) ^ (v), MUL2(v)),

#define MUL9(v) (MUL8(v) ^ (v))
#define MULB(v) (MUL8(v) ^ MUL2(v) ^ (v))
#define MULD(v) (MUL8(v) ^ MUL4(v) ^ (v))
#define MULE(v) (MUL8(v) ^ MUL4(v) ^ MUL2(v))

#define DEC0(v) COLUMN(MULE(v), MUL9(v), MULD(v), MULB(v)),
#define DEC1(v) COLUMN(MULB(v), MULE(v), MUL9(v), MULD(v)),
#define DEC2(v) COLUMN(MULD(v), MULB(v), MULE(v), MUL9(v)),
#define DEC3(v) COLUMN(MUL9(v), MULD(v), MULB(v), MULE(v)),

#define BYTE(v) v,

/*
 * All tables of one direction are in one object, so that position-independent code needs only one
 * base register. @mix combines the S-box and MixColumns, with one table per row; @sub is the S-box
 * alone, for the last round.
 */
struct tables {
	u32 mix[4][256];
	u8 sub[256];
} __aligned(64);

static const struct tables enc_tables = {
	.mix = {
		{ AES_SBOX(ENC0) },
		{ AES_SBOX(ENC1) },
		{ AES_SBOX(ENC2) },
		{ AES_SBOX(ENC3) },
	},
	.sub = { AES_SBOX(BYTE) },
};

static const struct tables dec_tables = {
	.mix = {
		{ AES_INV_SBOX(DEC0) },
		{ AES_INV_SBOX(DEC1) },
		{ AES_INV_SBOX(DEC2) },
		{ AES_INV_SBOX(DEC3) },
	},
	.sub = { AES_INV_SBOX(BYTE) },
};

/*
 * Computes one round from the columns @s to the columns @d with the round key at @rk. ShiftRows
 * takes row n of column c from column c + n; its inverse takes it from column c - n, which is c +
 * 3n modulo 4. So @step is 1 or 3.
 */
static __always_inline u32 mix(const struct tables *t, int c, const u32 s[4],
			       const u8 *rk, int step)
{
	u32 r0 = s[c], r1 = s[(c + step) % 4];
	u32 r2 = s[(c + 2) % 4], r3 = s[(c + 3 * step) % 4];

	return (t->mix[0][(u8)r0] ^ get_le32(rk + 4 * c)) ^
	       t->mix[1][(u8)(r1 >> 8)] ^
	       (t->mix[2][(u8)(r2 >> 16)] ^ t->mix[3][r3 >> 24]);
}

static __always_inline void full_round(const struct tables *t, u32 d[4],
				       const u32 s[4], const u8 *rk, int step)
{
	d[0] = mix(t, 0, s, rk, step);
	d[1] = mix(t, 1, s, rk, step);
	d[2] = mix(t, 2, s, rk, step);
	d[3] = mix(t, 3, s, rk, step);
}

static __always_inline u32 sub(const struct tables *t, int c, const u32 s[4],
			       const u8 *rk, int step)
{
	u32 r0 = s[c], r1 = s[(c + step) % 4];
	u32 r2 = s[(c + 2) % 4], r3 = s[(c + 3 * step) % 4];

	return COLUMN(t->sub[(u8)r0], t->sub[(u8)(r1 >> 8)],
		      t->sub[(u8)(r2 >> 16)], t->sub[r3 >> 24]) ^
	       get_le32(rk + 4 * c);
}

/* The last round omits MixColumns. */
static __always_inline void last_round(const struct tables *t, u32 d[4],
				       const u32 s[4], const u8 *rk, int step)
{
	d[0] = sub(t, 0, s, rk, step);
	d[1] = sub(t, 1, s, rk, step);
	d[2] = sub(t, 2, s, rk, step);
	d[3] = sub(t, 3, s, rk, step);
}

/*
 * Processes one block with unrolled rounds. The code for the last ten rounds is the same for all
 * key sizes, so longer schedules run their additional rounds first. Input and output use 64-bit
 * words, because a caller that loads the result as 64-bit words would stall on narrower stores.
 */
static __always_inline void crypt(const struct tables *t, int step,
				  const u8 *rk, u32 rounds, u8 *dst, const u8 *src)
{
	u64 lo = get_le64(src) ^ get_le64(rk);
	u64 hi = get_le64(src + 8) ^ get_le64(rk + 8);
	u32 a[4] = { lo, lo >> 32, hi, hi >> 32 };
	u32 b[4];

	if (rounds > 10) {
		if (rounds > 12) {
			full_round(t, b, a, rk + 16, step);
			full_round(t, a, b, rk + 32, step);
			rk += 32;
		}
		full_round(t, b, a, rk + 16, step);
		full_round(t, a, b, rk + 32, step);
		rk += 32;
	}
	full_round(t, b, a, rk + 16, step);
	full_round(t, a, b, rk + 32, step);
	full_round(t, b, a, rk + 48, step);
	full_round(t, a, b, rk + 64, step);
	full_round(t, b, a, rk + 80, step);
	full_round(t, a, b, rk + 96, step);
	full_round(t, b, a, rk + 112, step);
	full_round(t, a, b, rk + 128, step);
	full_round(t, b, a, rk + 144, step);
	last_round(t, a, b, rk + 160, step);

	put_le64(a[0] | (u64)a[1] << 32, dst);
	put_le64(a[2] | (u64)a[3] << 32, dst + 8);
}

void aes_encrypt_generic(const struct aes_key *key, u8 dst[AES_BLOCK_SIZE],
			 const u8 src[AES_BLOCK_SIZE])
{
	crypt(&enc_tables, 1, key->enc[0], key->rounds, dst, src);
}

void aes_decrypt_generic(const struct aes_key *key, u8 dst[AES_BLOCK_SIZE],
			 const u8 src[AES_BLOCK_SIZE])
{
	crypt(&dec_tables, 3, key->dec[0], key->rounds, dst, src);
}
