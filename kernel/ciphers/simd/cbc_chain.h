/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Serial CBC. Each block waits for all rounds of the previous block, and should wait for nothing
 * else. The last round key is therefore XORed beforehand with the next block and the first round
 * key, so that no separate XOR is needed between two blocks.
 */
#ifndef KILN_SIMD_CBC_CHAIN_H
#define KILN_SIMD_CBC_CHAIN_H

#include "rounds.h"

struct cbc_chain {
	const struct aes_key *key;
	__m128i first, last;	/* the first and the last round key */
	__m128i d;		/* the state before the last round; the IV if @fresh */
	bool fresh;		/* no block has been added yet */
};

static __always_inline struct cbc_chain cbc_begin(const struct aes_key *key, __m128i iv)
{
	return (struct cbc_chain){
		.key = key, .first = load1(key->enc[0]), .last = load1(key->enc[key->rounds]),
		.d = iv, .fresh = true,
	};
}

/* Encrypts one block except for its last round, which is merged with adding the next block. */
static __always_inline void cbc_add(struct cbc_chain *c, __m128i block)
{
	const __m128i whitened = _mm_xor_si128(block, c->first);
	const __m128i d = c->fresh ? _mm_xor_si128(c->d, whitened) :
		_mm_aesenclast_si128(c->d, _mm_xor_si128(c->last, whitened));

	c->fresh = false;
	c->d = inner_rounds(c->key->enc, c->key->rounds, false, d);
}

/* Runs the last round and returns the last block of ciphertext. */
static __always_inline __m128i cbc_end(const struct cbc_chain *c)
{
	return c->fresh ? c->d : _mm_aesenclast_si128(c->d, c->last);
}

#endif
