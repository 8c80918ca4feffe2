// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Constant-time, bit-sliced AES without vector registers. It is used where kernel_fpu_begin() is
 * not allowed and the table look-ups of aes_generic would leak secrets.
 *
 * Four blocks are processed together as eight planes of 64 bits: plane i holds bit i of all 64
 * bytes. The byte in row r and column c of block b occupies bit
 *
 *	16 * r + 4 * c + b
 *
 * of each plane. MixColumns can therefore combine rows by rotating whole words, and ShiftRows
 * rotates groups of 16 bits.
 *
 * Branches and addresses depend only on the number of rounds and the number of blocks.
 */
#include <kiln/bitops.h>
#include <kiln/string.h>
#include <kiln/unaligned.h>

#include "aes.h"
#include "sbox_circuit.h"

#define LANES 4
#define PLANES 8

/* Planes can stay in registers only if every loop over them is unrolled. */
#define for_each_step(i, end, step) \
	_Pragma("GCC unroll 8") \
	for (i = 0; i < (end); i += (step))
#define for_each_plane(i) for_each_step(i, PLANES, 1)
#define for_each_lane(b) for_each_step(b, LANES, 1)

/*
 * spread() moves the bytes of @x to the even bytes of the result. gather() is its inverse.
 */
static __always_inline u64 spread(u32 x)
{
	u64 w = x;

	w = (w | w << 16) & 0x0000ffff0000ffff;
	return (w | w << 8) & 0x00ff00ff00ff00ff;
}

static __always_inline u32 gather(u64 w)
{
	w &= 0x00ff00ff00ff00ff;
	w = (w | w >> 8) & 0x0000ffff0000ffff;
	return w | w >> 16;
}

/*
 * Loads a block as two words, @even with the even columns and @odd with the odd ones. Byte 2 * r +
 * c / 2 of a word is row r of column c.
 */
static __always_inline void load_block(u64 *even, u64 *odd, const u8 *src)
{
	*even = spread(get_le32(src)) | spread(get_le32(src + 8)) << 8;
	*odd = spread(get_le32(src + 4)) | spread(get_le32(src + 12)) << 8;
}

/*
 * Stores two 64-bit words, because a caller that loads the result as 64-bit words would stall on
 * narrower stores.
 */
static __always_inline void store_block(u8 *dst, u64 even, u64 odd)
{
	put_le64(gather(even) | (u64)gather(odd) << 32, dst);
	put_le64(gather(even >> 8) | (u64)gather(odd >> 8) << 32, dst + 8);
}

/* Exchanges the bits of @b under @mask with the bits of @a that are @n places higher. */
static __always_inline void swap_bits(u64 *a, u64 *b, u64 mask, int n)
{
	u64 t = (*a >> n ^ *b) & mask;

	*b ^= t;
	*a ^= t << n;
}

/*
 * Exchanges bit j of each byte of word i with bit i of the same byte of word j. On entry there is
 * one word per block and column parity; on return there is one per plane. The function is its own
 * inverse.
 */
static __always_inline void transpose(u64 q[PLANES])
{
	int i;

	for_each_step(i, PLANES, 2)
		swap_bits(&q[i], &q[i + 1], 0x5555555555555555, 1);
	for_each_step(i, PLANES, 4) {
		swap_bits(&q[i], &q[i + 2], 0x3333333333333333, 2);
		swap_bits(&q[i + 1], &q[i + 3], 0x3333333333333333, 2);
	}
	for_each_step(i, 4, 1)
		swap_bits(&q[i], &q[i + 4], 0x0f0f0f0f0f0f0f0f, 4);
}

/*
 * Computes a round key's planes. All four blocks use the same key, so instead of transposing four
 * copies, this function repeats each key bit four times.
 */
static void slice_key(u64 q[PLANES], const u8 *rk)
{
	u64 even, odd, lo, hi;
	int i;

	load_block(&even, &odd, rk);
	lo = (even & 0x0f0f0f0f0f0f0f0f) | (odd & 0x0f0f0f0f0f0f0f0f) << 4;
	hi = (even >> 4 & 0x0f0f0f0f0f0f0f0f) | (odd & 0xf0f0f0f0f0f0f0f0);
	for (i = 0; i < 4; i++) {
		q[i] = (lo >> i & 0x1111111111111111) * 15;
		q[i + 4] = (hi >> i & 0x1111111111111111) * 15;
	}
}

/*
 * Adds the affine constant that the S-box circuits leave out. The constant is the same for all
 * bytes, so ShiftRows and MixColumns do not change it, and it can be added to a round key instead
 * of the state.
 */
static __always_inline void add_affine(u64 q[PLANES])
{
	int i;

	for_each_plane(i)
		if (AES_SBOX_AFFINE >> i & 1)
			q[i] = ~q[i];
}

static __always_inline void add_round_key(u64 q[PLANES], const u64 rk[PLANES])
{
	int i;

	for_each_plane(i)
		q[i] ^= rk[i];
}

/* Rotates rows 2 and 3 by two columns. */
static __always_inline u64 shift_low_rows(u64 x)
{
	u64 t = (x >> 8 ^ x) & 0x00ff00ff00000000;

	return x ^ t ^ t << 8;
}

/*
 * Rotates row r by r columns: shift_low_rows() rotates rows 2 and 3 by two columns, and the masked
 * shifts then rotate rows 1 and 3 by one column.
 */
static __always_inline void shift_rows(u64 q[PLANES])
{
	u64 x;
	int i;

	for_each_plane(i) {
		x = shift_low_rows(q[i]);
		q[i] = (x & 0x0000ffff0000ffff) |
		       (x >> 4 & 0x0fff00000fff0000) |
		       (x & 0x000f0000000f0000) << 12;
	}
}

static __always_inline void inv_shift_rows(u64 q[PLANES])
{
	u64 x;
	int i;

	for_each_plane(i) {
		x = shift_low_rows(q[i]);
		q[i] = (x & 0x0000ffff0000ffff) |
		       (x & 0x0fff00000fff0000) << 4 |
		       (x >> 12 & 0x000f0000000f0000);
	}
}

/*
 * Let p be the sum of a byte and the byte one row below. MixColumns is then {02} p + (the byte one
 * row below) + (p two rows below).
 */
static __always_inline void mix_columns(u64 q[PLANES])
{
	u64 p[PLANES], below;
	int i;

	for_each_plane(i) {
		below = ror64(q[i], 16);
		p[i] = q[i] ^ below;
		q[i] = below ^ ror64(p[i], 32);
	}
	/*
	 * Multiply by {02}: shift up by one plane. The bits that leave the top plane wrap around as
	 * 0x1b.
	 */
	q[0] ^= p[7];
	q[1] ^= p[0] ^ p[7];
	q[2] ^= p[1];
	q[3] ^= p[2] ^ p[7];
	q[4] ^= p[3] ^ p[7];
	q[5] ^= p[4];
	q[6] ^= p[5];
	q[7] ^= p[6];
}

/*
 * InvMixColumns: adds {04} times the sum of the bytes two rows apart, and then applies MixColumns.
 */
static __always_inline void inv_mix_columns(u64 q[PLANES])
{
	u64 t[PLANES];
	int i;

	for_each_plane(i)
		t[i] = q[i] ^ ror64(q[i], 32);
	/*
	 * Multiply by {04}: shift up by two planes. The bits in t[6] wrap around as 0x1b, those in
	 * t[7] as 0x36.
	 */
	q[0] ^= t[6];
	q[1] ^= t[6] ^ t[7];
	q[2] ^= t[0] ^ t[7];
	q[3] ^= t[1] ^ t[6];
	q[4] ^= t[2] ^ t[6] ^ t[7];
	q[5] ^= t[3] ^ t[7];
	q[6] ^= t[4];
	q[7] ^= t[5];
	mix_columns(q);
}

static __always_inline void encrypt_planes(u64 q[PLANES], const u64 rk[][PLANES],
					   u32 rounds)
{
	u32 r;

	add_round_key(q, rk[0]);
	for (r = 1; r < rounds; r++) {
		aes_sbox_circuit(q, q);
		shift_rows(q);
		mix_columns(q);
		add_round_key(q, rk[r]);
	}
	aes_sbox_circuit(q, q);
	shift_rows(q);
	add_round_key(q, rk[rounds]);
}

/* Runs the equivalent inverse cipher, because the key schedule in @dec is made for it. */
static __always_inline void decrypt_planes(u64 q[PLANES], const u64 rk[][PLANES],
					   u32 rounds)
{
	u32 r;

	add_round_key(q, rk[0]);
	for (r = 1; r < rounds; r++) {
		aes_inv_sbox_circuit(q, q);
		inv_shift_rows(q);
		inv_mix_columns(q);
		add_round_key(q, rk[r]);
	}
	aes_inv_sbox_circuit(q, q);
	inv_shift_rows(q);
	add_round_key(q, rk[rounds]);
}

static __always_inline void crypt(const u8 schedule[][AES_BLOCK_SIZE], u32 rounds,
				  u8 *dst, const u8 *src, size_t blocks,
				  bool decrypt)
{
	u64 rk[AES_MAX_ROUND_KEYS][PLANES];
	u64 q[PLANES];
	size_t n, b;
	u32 r;

	for (r = 0; r <= rounds; r++)
		slice_key(rk[r], schedule[r]);
	/*
	 * When encrypting, add the affine constant to the round key that follows each S-box. When
	 * decrypting, add it to the round key that precedes each inverse S-box.
	 */
	for (r = 0; r < rounds; r++)
		add_affine(rk[decrypt ? r : r + 1]);

	while (blocks) {
		n = blocks < LANES ? blocks : LANES;
		for_each_lane(b)
			/* Unused lanes process a copy of the first block. */
			load_block(&q[b], &q[b + LANES],
				   src + (b < n ? b : 0) * AES_BLOCK_SIZE);
		transpose(q);
		if (decrypt)
			decrypt_planes(q, rk, rounds);
		else
			encrypt_planes(q, rk, rounds);
		transpose(q);
		for_each_lane(b)
			if (b < n)
				store_block(dst + b * AES_BLOCK_SIZE, q[b],
					    q[b + LANES]);
		src += n * AES_BLOCK_SIZE;
		dst += n * AES_BLOCK_SIZE;
		blocks -= n;
	}
	memzero_explicit(rk, sizeof(rk));
}

void aes_encrypt_fixed_time(const struct aes_key *key, u8 *dst, const u8 *src,
			    size_t blocks)
{
	crypt(key->enc, key->rounds, dst, src, blocks, false);
}

void aes_decrypt_fixed_time(const struct aes_key *key, u8 *dst, const u8 *src,
			    size_t blocks)
{
	crypt(key->dec, key->rounds, dst, src, blocks, true);
}
