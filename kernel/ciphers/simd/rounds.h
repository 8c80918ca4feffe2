/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES rounds on vectors and on single blocks. Include this after vec_xmm.h, vec_ymm.h or vec_zmm.h.
 * xts/xts_simd.h explains why a main loop keeps eight or sixteen vectors in flight.
 */
#ifndef KILN_SIMD_ROUNDS_H
#define KILN_SIMD_ROUNDS_H

#include <kiln/types.h>
#include <kiln/unaligned.h>

#include "../aes/aes.h"

/* Each round key is one block. */
typedef u8 round_key[AES_BLOCK_SIZE];

#define EACH_1(F) F(0)
#define EACH_2(F) EACH_1(F) F(1)
#define EACH_4(F) EACH_2(F) F(2) F(3)
#define EACH_8(F) EACH_4(F) F(4) F(5) F(6) F(7)
#define EACH_16(F) EACH_8(F) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)
#define DOWN_1(F) F(0)
#define DOWN_2(F) F(1) DOWN_1(F)
#define DOWN_4(F) F(3) F(2) DOWN_2(F)
#define DOWN_8(F) F(7) F(6) F(5) F(4) DOWN_4(F)
#define DOWN_16(F) F(15) F(14) F(13) F(12) F(11) F(10) F(9) F(8) DOWN_8(F)
#if MAIN == 16
#define EACH_MAIN EACH_16
#define DOWN_MAIN DOWN_16
#else
#define EACH_MAIN EACH_8
#define DOWN_MAIN DOWN_8
#endif

/*
 * Loads round key r from @rk, which holds one vector per round key if @wide, else one block. If
 * @keep is not NULL, the key is stored there as a vector for later steps, because each widening
 * load costs a vector operation.
 */
#define v_key(p) v_all(_mm_load_si128((const __m128i *)(p)))
#define KEY(r) (wide ? v_load(rk + (r) * VBYTES) : v_key(rk + (r) * AES_BLOCK_SIZE))
#define KEEP(r, k)                                      \
	if (keep)                                       \
		v_store(keep + (r) * VBYTES, k);
#define ROUND(r, EACH)                          \
	do {                                    \
		const vec_t k = KEY(r);         \
		KEEP(r, k)                      \
		if (decrypt) {                  \
			EACH(DEC)               \
		} else {                        \
			EACH(ENC)               \
		}                               \
	} while (0)
#define DECLARE(j) vec_t d##j;
#define ENC(j) d##j = v_enc(d##j, k);
#define DEC(j) d##j = v_dec(d##j, k);
/* Runs rounds 1 to 9, with STEP(n) after round 1, STEP(n + 1) after round 2, and so on. */
#define NINE_ROUNDS(EACH, STEP, n)              \
	do {                                    \
		ROUND(1, EACH); STEP(n);        \
		ROUND(2, EACH); STEP((n) + 1);  \
		ROUND(3, EACH); STEP((n) + 2);  \
		ROUND(4, EACH); STEP((n) + 3);  \
		ROUND(5, EACH); STEP((n) + 4);  \
		ROUND(6, EACH); STEP((n) + 5);  \
		ROUND(7, EACH); STEP((n) + 6);  \
		ROUND(8, EACH); STEP((n) + 7);  \
		ROUND(9, EACH); STEP((n) + 8);  \
	} while (0)
/*
 * Runs all rounds but the last on d0, d1 ..., with STEP(1) to STEP(11) between the rounds. All key
 * sizes end with the same rounds, so longer schedules run their additional rounds first. These
 * advance @rk and @keep, so that the last nine rounds and LAST_KEY always have the same indices.
 */
#define NO_STEP(r) do { } while (0)
#define TWO_MORE(EACH)                                          \
	do {                                                    \
		ROUND(1, EACH);                                 \
		ROUND(2, EACH);                                 \
		rk += 2 * (wide ? VBYTES : AES_BLOCK_SIZE);     \
		if (keep)                                       \
			keep += 2 * VBYTES;                     \
	} while (0)
#define ROUNDS(EACH, STEP)                      \
	do {                                    \
		if (likely(rounds > 12))        \
			TWO_MORE(EACH);         \
		STEP(1);                        \
		if (likely(rounds > 10))        \
			TWO_MORE(EACH);         \
		STEP(2);                        \
		NINE_ROUNDS(EACH, STEP, 3);     \
	} while (0)
#define LAST_KEY KEY(10)

/*
 * Round keys in memory, each widened to a vector, for use in a main loop. They are wiped with
 * vector stores, because REP STOSB takes 20 cycles to start.
 */
struct wide_keys {
	u8 k[AES_MAX_ROUND_KEYS * VBYTES] __aligned(64);
};

static __always_inline const u8 *widen(struct wide_keys *wide, const u8 *rk, u32 rounds)
{
	size_t i;

	if (VBLOCKS == 1)
		return rk;
	for (i = 0; i <= rounds; i++)
		v_store(wide->k + i * VBYTES, v_key(rk + i * AES_BLOCK_SIZE));
	return wide->k;
}

static __always_inline void wipe_keys(struct wide_keys *wide, u32 rounds)
{
	u32 i;

	if (VBLOCKS == 1)
		return;
	for (i = 0; i <= rounds; i++)
		v_store(wide->k + i * VBYTES, v_zero());
	__asm__ volatile("" : : "r"(wide) : "memory");
}

static __always_inline __m128i load1(const void *p)
{
	return _mm_loadu_si128(p);
}

static __always_inline void store1(void *p, __m128i v)
{
	_mm_storeu_si128(p, v);
}

/*
 * Loads two words with separate loads, because they were stored separately. A single load of both
 * would have to wait for the stores.
 */
static __always_inline __m128i load_halves(const void *p)
{
	u64 lo = get_le64(p), hi = get_le64((const u8 *)p + 8);

	/* Prevents the compiler from merging the loads. */
	__asm__("" : "+r"(lo), "+r"(hi));
	return _mm_set_epi64x(hi, lo);
}

/*
 * Runs all rounds but the last on one block, which has already been XORed with the first round
 * key.
 */
static __always_inline __m128i inner_rounds(const round_key *rk, u32 rounds,
					    const bool decrypt, __m128i d)
{
#define ROUND1(r)                                          \
	(d = decrypt ? _mm_aesdec_si128(d, load1(rk[r])) : \
		       _mm_aesenc_si128(d, load1(rk[r])))
	ROUND1(1); ROUND1(2); ROUND1(3); ROUND1(4); ROUND1(5);
	ROUND1(6); ROUND1(7); ROUND1(8); ROUND1(9);
	if (likely(rounds > 10)) {
		ROUND1(10); ROUND1(11);
		if (likely(rounds > 12)) {
			ROUND1(12); ROUND1(13);
		}
	}
#undef ROUND1
	return d;
}

static __always_inline __m128i encrypt1(const struct aes_key *key, __m128i p)
{
	const __m128i d = inner_rounds(key->enc, key->rounds, false,
				       _mm_xor_si128(p, load1(key->enc[0])));

	return _mm_aesenclast_si128(d, load1(key->enc[key->rounds]));
}

static __always_inline __m128i decrypt1(const struct aes_key *key, __m128i c)
{
	const __m128i d = inner_rounds(key->dec, key->rounds, true,
				       _mm_xor_si128(c, load1(key->dec[0])));

	return _mm_aesdeclast_si128(d, load1(key->dec[key->rounds]));
}

/* A PSHUFB pattern that reverses the order of the bytes in a block. */
static const u8 reverse[16] __aligned(16) = {
	15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0
};

/* Loads the @n bytes at @p, 0 < n < 16, padded with zeros; nothing beyond them is read. */
static __always_inline __m128i load_part(const u8 *p, size_t n)
{
	u64 lo, hi = 0;

	if (n >= 8) {
		lo = get_le64(p);
		if (n > 8)
			hi = get_le64(p + n - 8) >> 8 * (16 - n);
	} else if (n >= 4) {
		lo = get_le32(p) | (u64)get_le32(p + n - 4) << 8 * (n - 4);
	} else {
		lo = p[0] | (u64)p[n / 2] << 8 * (n / 2) | (u64)p[n - 1] << 8 * (n - 1);
	}
	return _mm_set_epi64x(hi, lo);
}

static __always_inline void store_part(u8 *p, size_t n, __m128i v)
{
	const u64 lo = _mm_cvtsi128_si64(v), hi = _mm_extract_epi64(v, 1);

	if (n >= 8) {
		if (n > 8)
			put_le64(hi << 8 * (16 - n) | lo >> 8 * (n - 8),
				 p + n - 8);
		put_le64(lo, p);
	} else if (n >= 4) {
		put_le32(lo, p);
		put_le32(lo >> 8 * (n - 4), p + n - 4);
	} else {
		p[0] = lo;
		p[n / 2] = lo >> 8 * (n / 2);
		p[n - 1] = lo >> 8 * (n - 1);
	}
}

/* Keeps the first @n bytes of @v, 0 <= n <= 16, and clears the rest. */
static __always_inline __m128i keep1(__m128i v, size_t n)
{
	static const u8 window[32] __aligned(16) = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	};

	return _mm_and_si128(v, load1(window + 16 - n));
}

/*
 * Helpers for the first @n bytes of a vector, 0 < n <= VBYTES. v_load_part() loads them and sets
 * the other bytes to zero, v_store_part() stores them, and v_keep() clears the other bytes of a
 * vector. AVX-512 uses masks instead (vec_zmm.h).
 */
#if VBLOCKS == 1
static __always_inline vec_t v_load_part(const u8 *p, size_t n)
{
	return n == AES_BLOCK_SIZE ? load1(p) : load_part(p, n);
}

static __always_inline void v_store_part(u8 *p, size_t n, vec_t v)
{
	if (n == AES_BLOCK_SIZE)
		store1(p, v);
	else
		store_part(p, n, v);
}

#define v_keep(v, n) keep1(v, n)
#elif VBLOCKS == 2
static __always_inline vec_t v_load_part(const u8 *p, size_t n)
{
	if (n < AES_BLOCK_SIZE)
		return v_one(load_part(p, n));
	if (n == AES_BLOCK_SIZE)
		return v_one(load1(p));
	if (n == 2 * AES_BLOCK_SIZE)
		return v_load(p);
	return v_pair(load1(p), load_part(p + AES_BLOCK_SIZE, n - AES_BLOCK_SIZE));
}

static __always_inline void v_store_part(u8 *p, size_t n, vec_t v)
{
	if (n < AES_BLOCK_SIZE) {
		store_part(p, n, v_first(v));
	} else {
		store1(p, v_first(v));
		p += AES_BLOCK_SIZE;
		n -= AES_BLOCK_SIZE;
		if (n == AES_BLOCK_SIZE)
			store1(p, _mm256_extracti128_si256(v, 1));
		else if (n)
			store_part(p, n, _mm256_extracti128_si256(v, 1));
	}
}

static __always_inline vec_t v_keep(vec_t v, size_t n)
{
	const size_t first = n < AES_BLOCK_SIZE ? n : AES_BLOCK_SIZE;

	return v_pair(keep1(v_first(v), first),
		      keep1(_mm256_extracti128_si256(v, 1), n - first));
}
#endif

#endif
