/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * GHASH and POLYVAL with vector registers: the template that every SIMD tier includes once, after
 * ../simd/rounds.h and after defining POLYVAL(name), the full name of an entry point.
 */
#include <kiln/fpu_assert.h>

#include "polyval_sums.h"

/* Hashes a message of up to eight vectors as a single sum. */
static __always_inline __m128i hash_short(const struct polyval_key *key, const u8 *data,
					  size_t len, const bool ghash)
{
	const vec_t order = v_key(reverse);
	const u8 *p = power(key, blocks_of(len));
	struct sums g;

#define REVERSED(v) (ghash ? v_shuffle(v, order) : (v))
	if (len < VBYTES) {
		mul_set(&g, REVERSED(v_load_part(data, len)), p);
		return reduce(&g);
	}
	mul_set(&g, REVERSED(v_load(data)), p);
	for (;;) {
		data += VBYTES;
		len -= VBYTES;
		p += VBYTES;
		if (len < VBYTES)
			break;
		mul_add(&g, REVERSED(v_load(data)), p);
	}
	if (len)
		mul_add(&g, REVERSED(v_load_part(data, len)), p);
#undef REVERSED
	return reduce(&g);
}

static __always_inline void digest(const struct polyval_key *key, const u8 *data, size_t len,
				   u8 *out, const bool ghash)
{
	const size_t last = len % AES_BLOCK_SIZE;
	__m128i a = _mm_setzero_si128();

	if (len > SUM_BYTES) {
		a = hash_blocks(key, a, data, len / AES_BLOCK_SIZE, ghash);
		if (last) {
			__m128i x = load_part(data + (len - last), last);
			struct sums g;

			x = ghash ? _mm_shuffle_epi8(x, load1(reverse)) : x;
			mul_set1(&g, _mm_xor_si128(a, x), power(key, 1));
			a = reduce(&g);
		}
	} else if (len) {
		a = hash_short(key, data, len, ghash);
	}
	store1(out, ghash ? _mm_shuffle_epi8(a, load1(reverse)) : a);
}

void POLYVAL(whole)(const struct polyval_key *key, const u8 *data, size_t len, u8 *out,
		    bool ghash)
{
	assert_fpu_section();
	if (ghash)
		digest(key, data, len, out, true);
	else
		digest(key, data, len, out, false);
	v_end();
}

void POLYVAL(blocks)(const struct polyval_key *key, u64 acc[2], const u8 *data, size_t blocks,
		     bool ghash)
{
	__m128i a = load_halves(acc);

	assert_fpu_section();
	if (!blocks)
		return;
	a = ghash ? hash_blocks(key, a, data, blocks, true) :
		    hash_blocks(key, a, data, blocks, false);
	store1(acc, a);
	v_end();
}
