/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Makes the implementations in ciphers/ available as algorithms of Linux's crypto API.
 *
 * skcipher.c, aead.c, shash.c APIs: kiln_KIND_setup, which fills in the fields of this kind
 * poly1305.c, crc32c.c APIs: the same, for hashes that receive their key differently in Linux
 */
#ifndef KILN_ALG_H
#define KILN_ALG_H

#include <crypto/internal/aead.h>
#include <crypto/internal/hash.h>
#include <crypto/internal/skcipher.h>
#include <linux/kernel.h>
#include <linux/scatterlist.h>

#include <kiln/abi/cipher.h>

/* The alignment that ciphers/ requires for contexts and states. Linux guarantees less. */
#define KILN_ALIGN 64

/*
 * A section processes at most one page. The parameter max_section_us can reduce this limit, but not
 * below KILN_SECTION_LEAST, which has room for the last two blocks of a message.
 */
#define KILN_SECTION_BYTES 4096
#define KILN_SECTION_LEAST 256

/*
 * The largest block size. The length of each piece of a message, except the last, is a multiple of
 * KILN_PIECE.
 */
#define KILN_PIECE 64

struct kiln_alg {
	const struct kiln_impl *impl;
	/* This algorithm's scalar implementation; NULL if @impl itself is scalar. */
	const struct kiln_impl *scalar;
	u32 section_bytes;	/* a multiple of KILN_PIECE, at most KILN_SECTION_BYTES */
	bool registered;
	union {
		struct skcipher_alg skcipher;
		struct aead_alg aead;
		struct shash_alg shash;
	};
};

void kiln_skcipher_setup(struct kiln_alg *alg);
void kiln_aead_setup(struct kiln_alg *alg);
void kiln_shash_setup(struct kiln_alg *alg);
void kiln_poly1305_setup(struct kiln_alg *alg);
void kiln_crc32c_setup(struct kiln_alg *alg);

static inline void *kiln_aligned(void *p)
{
	return PTR_ALIGN(p, KILN_ALIGN);
}

/* Returns how many bytes to request from Linux so that @size remain after kiln_aligned(). */
static inline u32 kiln_room(u32 size)
{
	return size ? size + KILN_ALIGN - CRYPTO_MINALIGN : 0;
}

#endif
