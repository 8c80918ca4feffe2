/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Template of AES-XTS in general-purpose registers: the including file uses XTS_SCALAR() once. */
#ifndef KILN_XTS_SCALAR_H
#define KILN_XTS_SCALAR_H

#include <kiln/string.h>

#include "../aes/scalar.h"
#include "xts.h"

/* An element of GF(2^128) in the byte order of IEEE 1619: byte 0 holds x^0 to x^7. */
struct xts_tweak {
	u64 lo;
	u64 hi;
};

/* Multiplies by x modulo x^128 + x^7 + x^2 + x + 1, without a branch on the secret carry. */
static __always_inline struct xts_tweak xts_next(struct xts_tweak t)
{
	u64 carry = -(t.hi >> 63);

	t.hi = t.hi << 1 | t.lo >> 63;
	t.lo = t.lo << 1 ^ (carry & 0x87);
	return t;
}

static __always_inline void xts_xor(u8 *dst, const u8 *src, struct xts_tweak t)
{
	u64 lo = get_le64(src) ^ t.lo;
	u64 hi = get_le64(src + 8) ^ t.hi;

	put_le64(lo, dst);
	put_le64(hi, dst + 8);
}

static __always_inline struct xts_tweak xts_load(const u8 *p)
{
	return (struct xts_tweak){ .lo = get_le64(p), .hi = get_le64(p + 8) };
}

/* Computes the tweak of the first block (IEEE 1619, 5.3.1). */
static __always_inline struct xts_tweak xts_first(const struct aes_scalar *c,
						  const struct xts_key *key,
						  const u8 *iv, u8 *work)
{
	c->encrypt(&key->tweak, work, iv, 1);
	return xts_load(work);
}

/*
 * Encrypts or decrypts a message or piece. Between the two XORs with the tweaks, blocks are kept in
 * @work rather than in the destination, which other programs may be able to read.
 */
static __always_inline void xts_scalar_crypt(const struct aes_scalar *c, bool decrypt,
					     const struct xts_key *key, u8 *dst,
					     const u8 *src, size_t len,
					     struct xts_tweak t, u8 *work)
{
	aes_blocks_t *ecb = decrypt ? c->decrypt : c->encrypt;
	size_t tail = len % AES_BLOCK_SIZE;
	/* Ciphertext stealing, if needed, processes the last whole block. */
	size_t blocks = len / AES_BLOCK_SIZE - (tail ? 1 : 0);
	struct xts_tweak first, last;
	size_t n, i;

	while (blocks) {
		n = blocks < c->batch ? blocks : c->batch;
		first = t;
		for (i = 0; i < n; i++) {
			xts_xor(work + i * AES_BLOCK_SIZE,
				src + i * AES_BLOCK_SIZE, t);
			t = xts_next(t);
		}
		ecb(&key->data, work, work, n);
		/* Computing the tweaks a second time is cheaper than storing all of them. */
		t = first;
		for (i = 0; i < n; i++) {
			xts_xor(dst + i * AES_BLOCK_SIZE,
				work + i * AES_BLOCK_SIZE, t);
			t = xts_next(t);
		}
		src += n * AES_BLOCK_SIZE;
		dst += n * AES_BLOCK_SIZE;
		blocks -= n;
	}

	if (tail) {
		/* Decryption uses the last two tweaks in reverse order. */
		first = decrypt ? xts_next(t) : t;
		last = decrypt ? t : xts_next(t);

		xts_xor(work, src, first);
		ecb(&key->data, work, work, 1);
		xts_xor(work, work, first);
		/*
		 * The first @tail bytes of this block become the partial last block of the result,
		 * and the partial block of the source replaces them. Read each source byte before
		 * writing the result, since @dst may equal @src.
		 */
		for (i = 0; i < tail; i++) {
			u8 stolen = work[i];

			work[i] = src[AES_BLOCK_SIZE + i];
			dst[AES_BLOCK_SIZE + i] = stolen;
		}
		xts_xor(work, work, last);
		ecb(&key->data, work, work, 1);
		xts_xor(dst, work, last);
	}
	memzero_explicit(work, c->batch * AES_BLOCK_SIZE);
}

/*
 * Defines all functions of a tier whose struct aes_scalar processes up to @blocks blocks per call.
 */
#define XTS_SCALAR(name, over, blocks)					\
static const struct aes_scalar *const scalar = &over;			\
									\
XTS_SCALAR_ENTRY(name, encrypt, false, blocks)				\
XTS_SCALAR_ENTRY(name, decrypt, true, blocks)				\
									\
void xts_first_tweak_##name(const void *ctx, u8 *iv)			\
{									\
	const struct xts_key *key = ctx;				\
									\
	scalar->encrypt(&key->tweak, iv, iv, 1);			\
}

#define XTS_SCALAR_ENTRY(name, direction, decrypt, blocks)		\
void xts_##direction##_##name(const void *ctx, u8 *dst,			\
			      const u8 *src, size_t len, u8 *iv)	\
{									\
	u8 work[(blocks) * AES_BLOCK_SIZE] __aligned(16);		\
									\
	xts_scalar_crypt(scalar, decrypt, ctx, dst, src, len,	\
			 xts_first(scalar, ctx, iv, work), work); \
}									\
									\
void xts_##direction##_piece_##name(const void *ctx, u8 *dst,		\
				    const u8 *src, size_t len, u8 *tweak) \
{									\
	u8 work[(blocks) * AES_BLOCK_SIZE] __aligned(16);		\
									\
	xts_scalar_crypt(scalar, decrypt, ctx, dst, src, len,	\
			 xts_load(tweak), work);			\
	xts_tweak_advance(tweak, len / AES_BLOCK_SIZE);			\
}

#endif
