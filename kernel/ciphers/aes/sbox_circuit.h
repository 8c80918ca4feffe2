/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The AES S-box as a circuit of AND and XOR gates on bit planes: each of the eight words holds one
 * bit of up to 64 bytes. The circuit has no look-ups and no branches, so its time does not depend
 * on the data.
 *
 * The structure follows Boyar and Peralta ("A small depth-16 circuit for the AES S-box", 2011; 115
 * gates in the form used here): a linear layer, the inversion in GF(2^8) through its subfields, and
 * another linear layer. The inverse S-box uses the same inversion. Its two linear layers are the
 * forward layers composed with the inverse of the affine matrix, shortened by search to 23 and 31
 * gates.
 *
 * Both directions leave out the affine constant 0x63. Callers can add it at no cost, as part of a
 * round key.
 */
#ifndef KILN_AES_SBOX_CIRCUIT_H
#define KILN_AES_SBOX_CIRCUIT_H

#include <kiln/types.h>

/* The constant that callers of the circuits must add. */
#define AES_SBOX_AFFINE 0x63

/*
 * Computes the inverse in GF(2^8). @y contains the linear forms that the top layer computes from
 * the input. @z receives the products that the bottom layer adds up.
 */
static __always_inline void aes_sbox_middle(u64 z[18], const u64 y[22])
{
	u64 a0, a1, a2, a3, b, c0, c1, c2, c3, d, e;
	u64 i0, i1, i2, i3, i01, i23, i03, i12, all;

	/* The norm in GF(2^4) is a3..a0. */
	b = y[12] & y[15];
	a0 = (y[3] & y[6]) ^ b;
	a1 = (y[4] & y[0]) ^ b;
	b = y[13] & y[16];
	a2 = (y[5] & y[1]) ^ b;
	a3 = (y[2] & y[7]) ^ b;
	b = y[9] & y[11];
	c0 = (y[14] & y[17]) ^ b;
	c1 = (y[8] & y[10]) ^ b;
	a0 ^= c0 ^ y[20];
	a1 ^= c1 ^ y[19];
	a2 ^= c0 ^ y[21];
	a3 ^= c1 ^ y[18];

	/* The inverse of the norm is i3..i0. */
	c0 = a0 ^ a1;
	c1 = a2 ^ a3;
	b = a0 & a2;
	c2 = a3 ^ b;
	c3 = a1 ^ b;
	i0 = (c0 & c2) ^ a1;
	i1 = (c1 & c3) ^ a3;
	d = a3 & (c2 ^ i1);
	i2 = d ^ a2 ^ i1;
	e = c2 ^ d;
	i3 = c0 ^ (i0 & e);

	/* Multiply back into GF(2^8). */
	i01 = i0 ^ i1;
	i23 = i3 ^ i2;
	i03 = i0 ^ i3;
	i12 = i1 ^ i2;
	all = i01 ^ i23;
	z[0] = i12 & y[15];
	z[1] = i2 & y[6];
	z[2] = i1 & y[0];
	z[3] = i03 & y[16];
	z[4] = i3 & y[1];
	z[5] = i0 & y[7];
	z[6] = i01 & y[11];
	z[7] = all & y[17];
	z[8] = i23 & y[10];
	z[9] = i12 & y[12];
	z[10] = i2 & y[3];
	z[11] = i1 & y[4];
	z[12] = i03 & y[13];
	z[13] = i3 & y[5];
	z[14] = i0 & y[2];
	z[15] = i01 & y[9];
	z[16] = all & y[14];
	z[17] = i23 & y[8];
}

/* Computes the planes of S(x) ^ AES_SBOX_AFFINE from the planes of x; @out may equal @in. */
static __always_inline void aes_sbox_circuit(u64 out[8], const u64 in[8])
{
	u64 y[22], z[18];
	u64 t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14;

	y[0] = in[0];
	y[14] = in[4] ^ in[2];
	y[13] = in[7] ^ in[1];
	y[9] = in[7] ^ in[4];
	y[8] = in[7] ^ in[2];
	t0 = in[6] ^ in[5];
	y[1] = t0 ^ in[0];
	y[4] = y[1] ^ in[4];
	y[12] = y[13] ^ y[14];
	y[2] = y[1] ^ in[7];
	y[5] = y[1] ^ in[1];
	y[3] = y[5] ^ y[8];
	t1 = in[3] ^ y[12];
	y[15] = t1 ^ in[2];
	y[20] = t1 ^ in[6];
	y[6] = y[15] ^ in[0];
	y[10] = y[15] ^ t0;
	y[11] = y[20] ^ y[9];
	y[7] = in[0] ^ y[11];
	y[17] = y[10] ^ y[11];
	y[19] = y[10] ^ y[8];
	y[16] = t0 ^ y[11];
	y[21] = y[13] ^ y[16];
	y[18] = in[7] ^ y[16];

	aes_sbox_middle(z, y);

	t0 = z[15] ^ z[16];
	t1 = z[5] ^ z[13];
	t2 = z[9] ^ z[10];
	t3 = z[0] ^ z[3];
	t4 = z[2] ^ z[12] ^ t3;
	t5 = z[4] ^ t0;
	t6 = z[3] ^ z[6] ^ z[7];
	t7 = z[4] ^ t6;
	t8 = z[7] ^ z[8] ^ t5;
	t9 = t2 ^ t5;
	t10 = z[14] ^ t4 ^ t8;
	t11 = z[1] ^ t9;
	t12 = t0 ^ t4;
	t13 = z[10] ^ z[11];
	t14 = z[16] ^ z[17];
	out[7] = t6 ^ t9;
	out[1] = z[12] ^ t1 ^ t8;
	out[0] = t1 ^ t12;
	out[4] = t3 ^ t11;
	out[3] = z[2] ^ z[5] ^ t11;
	out[2] = t13 ^ t10;
	out[6] = t7 ^ out[4];
	out[5] = t14 ^ t7 ^ t10;
}

/* Computes the planes of S^-1(x) from the planes of x ^ AES_SBOX_AFFINE; @out may equal @in. */
static __always_inline void aes_inv_sbox_circuit(u64 out[8], const u64 in[8])
{
	u64 y[22], z[18];
	u64 t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14, t15;
	u64 t16, t17, t18, t19, t20, t21, t22;

	y[3] = in[4] ^ in[7];
	y[19] = in[0] ^ in[3];
	y[9] = in[3] ^ in[4];
	y[8] = in[6] ^ in[7];
	y[5] = y[3] ^ y[8];
	y[14] = y[9] ^ y[8];
	y[18] = in[5] ^ y[9];
	y[10] = y[19] ^ y[8];
	y[6] = in[3] ^ y[14];
	y[1] = y[10] ^ y[6];
	y[13] = in[1] ^ y[1];
	y[12] = y[14] ^ y[13];
	y[2] = y[5] ^ y[13];
	y[7] = y[18] ^ y[2];
	y[16] = y[1] ^ y[7];
	y[4] = in[5] ^ y[7];
	y[21] = y[13] ^ y[16];
	t0 = in[2] ^ in[7];
	y[20] = y[2] ^ t0;
	y[0] = in[5] ^ t0;
	y[15] = y[6] ^ y[0];
	y[17] = y[16] ^ y[15];
	y[11] = y[10] ^ y[17];

	aes_sbox_middle(z, y);

	t0 = z[6] ^ z[15];
	t1 = z[12] ^ t0;
	t2 = z[16] ^ t1;
	t3 = z[13] ^ t2;
	t4 = z[8] ^ t3;
	t5 = z[3] ^ z[4];
	t6 = z[2] ^ z[10];
	t7 = z[5] ^ t4;
	out[7] = z[3] ^ t7;
	t8 = z[1] ^ t5;
	t9 = z[8] ^ t6;
	t10 = z[14] ^ t9;
	t11 = t8 ^ t10;
	t12 = z[11] ^ z[17];
	t13 = z[7] ^ t5;
	out[1] = t3 ^ t13;
	t14 = z[0] ^ out[7];
	out[2] = t8 ^ t14;
	t15 = z[15] ^ t12;
	out[0] = z[9] ^ t15;
	t16 = z[11] ^ t11;
	out[5] = t2 ^ t16;
	t17 = z[0] ^ t4;
	out[4] = z[2] ^ t17;
	t18 = t12 ^ t14;
	t19 = z[6] ^ z[13];
	t20 = t9 ^ t18;
	t21 = out[0] ^ t19;
	out[6] = t16 ^ t21;
	t22 = t13 ^ t20;
	out[3] = z[16] ^ t22;
}

#endif
