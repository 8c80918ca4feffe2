/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES-GCM with vector registers: the template every SIMD tier includes once, after its vectors
 * (simd/rounds.h) and GCM(name), the name of an entry point of this tier.
 *
 * Shape. Steps of eight vectors, each with one reduction, while there is more than that left:
 * the rounds of AES with the multiplications of eight vectors of ciphertext between them, which
 * are those of the step before when encrypting. What is left, one byte to eight vectors, and
 * any message as short as that, is summed up with the block before it and the block of lengths
 * behind it, and reduced once.
 */
#include <kiln/fpu.h>

#include "polyval_simd.h"
#include "gcm.h"

#define STEP_BLOCKS (8 * VBLOCKS)
#define STEP_BYTES (8 * VBYTES)

#define COUNT(j)                                           \
	d##j = v_xor(v_shuffle(*counter, order), k0);      \
	*counter = v_add64(*counter, v_low64(VBLOCKS));
#define OUT(j)                                                                  \
	d##j = v_enclast(d##j, v_xor(k, v_load(src + j * VBYTES)));             \
	v_store(dst + j * VBYTES, d##j);
#define HASH(j) mul_add(g, v_shuffle(v_load(cipher + (j) * VBYTES), order), p + (j) * VBYTES)

/* text_n: n vectors, their ciphertext times the powers at @p on to the sums. */
#define HASH_DECRYPTED(r)                               \
	do {                                            \
		if (decrypting && (r) <= vectors)       \
			HASH((r) - 1);                  \
	} while (0)
#define HASH_ENCRYPTED(j)                               \
	if (!decrypting)                                \
		mul_add(g, v_shuffle(d##j, order), p + (j) * VBYTES);
#define TEXT_FUNC(n, EACH)                                                            \
static __always_inline void text_##n(const struct gcm_key *key, const bool decrypting, \
				     u8 *dst, const u8 *src, vec_t *counter,          \
				     struct sums *g, const u8 *p)                     \
{                                                                                     \
	const bool wide = false, decrypt = false;                                     \
	const u8 *rk = key->aes.enc[0], *cipher = src;                                \
	const u32 rounds = key->aes.rounds;                                           \
	const vec_t order = v_key(reverse), k0 = KEY(0);                              \
	enum { vectors = n };                                                         \
	EACH(DECLARE)                                                                 \
										      \
	EACH(COUNT)                                                                   \
	ROUNDS(EACH, HASH_DECRYPTED);                                                 \
	do {                                                                          \
		const vec_t k = KEY(rounds);                                          \
		EACH(OUT)                                                             \
	} while (0);                                                                  \
	EACH(HASH_ENCRYPTED)                                                          \
}
TEXT_FUNC(1, EACH_1)
TEXT_FUNC(2, EACH_2)
TEXT_FUNC(4, EACH_4)
TEXT_FUNC(8, EACH_8)

/* The last vector, of which there are @len bytes, 0 < len <= VBYTES. */
static __always_inline void text_part(const struct gcm_key *key, const bool decrypting,
				      u8 *dst, const u8 *src, size_t len, vec_t *counter,
				      struct sums *g, const u8 *p)
{
	const bool wide = false, decrypt = false;
	const u8 *rk = key->aes.enc[0];
	const u32 rounds = key->aes.rounds;
	const vec_t order = v_key(reverse), k0 = KEY(0), in = v_load_part(src, len);
	vec_t d0;

	EACH_1(COUNT)
	if (decrypting)
		mul_add(g, v_shuffle(in, order), p);
	ROUNDS(EACH_1, NO_STEP);
	d0 = v_enclast(d0, v_xor(KEY(rounds), in));
	v_store_part(dst, len, d0);
	if (!decrypting)
		mul_add(g, v_shuffle(v_keep(d0, len), order), p);
}

/* Eight vectors, and the sum of those at @cipher, after @acc, reduced. */
#define HASH_ROUND(r)                                                   \
	do {                                                            \
		if ((r) == 1)                                           \
			mul_set(g, v_shuffle(v_load(cipher + VBYTES), order), p + VBYTES); \
		else if ((r) < 8)                                       \
			HASH(r);                                        \
		else if ((r) == 8)                                      \
			/* What the step before came to comes last. */  \
			mul_add(g, v_xor(v_shuffle(v_load(cipher), order), v_one(acc)), p); \
		else                                                    \
			acc = reduce(g);                                \
	} while (0)
static __always_inline __m128i text_step(const struct gcm_key *key, u8 *dst, const u8 *src,
					 vec_t *counter, const u8 *cipher, __m128i acc)
{
	const bool wide = false, decrypt = false;
	const u8 *rk = key->aes.enc[0], *p = power(&key->h, STEP_BLOCKS);
	const u32 rounds = key->aes.rounds;
	const vec_t order = v_key(reverse), k0 = KEY(0);
	struct sums sums, *const g = &sums;
	EACH_8(DECLARE)

	EACH_8(COUNT)
	ROUNDS(EACH_8, HASH_ROUND);
	do {
		const vec_t k = KEY(rounds);
		EACH_8(OUT)
	} while (0);
	return acc;
}

/* How far a message has come. */
struct progress {
	u8 *dst;
	const u8 *src;
	size_t len;
	vec_t counter;	/* of the next vector, each block a little-endian number */
	__m128i acc;
};

/* Steps, while more than one is left. */
static __always_inline void text_steps(const struct gcm_key *key, const bool decrypting,
				       struct progress *m)
{
	const u8 *cipher = m->dst;

#define NEXT_STEP()                     \
	do {                            \
		m->dst += STEP_BYTES;   \
		m->src += STEP_BYTES;   \
		m->len -= STEP_BYTES;   \
	} while (0)
	if (!decrypting) {
		struct sums unused = { v_zero(), v_zero(), v_zero() };

		text_8(key, true, m->dst, m->src, &m->counter, &unused,
		       power(&key->h, STEP_BLOCKS));
		NEXT_STEP();
	}
	while (m->len > STEP_BYTES) {
		/* Keys and powers stay in memory. */
		barrier();
		m->acc = text_step(key, m->dst, m->src, &m->counter,
				   decrypting ? m->src : cipher, m->acc);
		cipher = m->dst;
		NEXT_STEP();
	}
	if (!decrypting)
		m->acc = hash_blocks(&key->h, m->acc, cipher, STEP_BLOCKS, true);
}

/* What is left, one step at most, with powers from @p on. */
static __always_inline void text_rest(const struct gcm_key *key, const bool decrypting,
				      struct progress *m, struct sums *g, const u8 *p)
{
#define REST(n)                                                                       \
	if (m->len >= n * VBYTES) {                                                   \
		text_##n(key, decrypting, m->dst, m->src, &m->counter, g, p);         \
		m->dst += n * VBYTES;                                                 \
		m->src += n * VBYTES;                                                 \
		m->len -= n * VBYTES;                                                 \
		p += n * VBYTES;                                                      \
	}
	REST(8)
	REST(4)
	REST(2)
	REST(1)
	if (m->len)
		text_part(key, decrypting, m->dst, m->src, m->len, &m->counter, g, p);
}

static __always_inline size_t blocks_of(size_t len)
{
	return (len + AES_BLOCK_SIZE - 1) / AES_BLOCK_SIZE;
}

/* The counters after @blocks blocks from the IV and 1 on, reversed: the message's first is 2. */
static __always_inline vec_t counters(u64 first, u32 last, u64 blocks)
{
	const __m128i c = _mm_set_epi64x(__builtin_bswap64(first),
		((u64)__builtin_bswap32(last) << 32 | 2) + blocks);

	return v_add64(v_all(c), v_number());
}

static __always_inline void piece(const struct gcm_key *key, struct gcm_state *s,
				  const bool decrypting, u8 *dst, const u8 *src, size_t len)
{
	struct progress m = {
		.dst = dst, .src = src, .len = len,
		.counter = counters(get_le64(s->j0), get_le32(s->j0 + 8),
				    s->len / AES_BLOCK_SIZE),
		.acc = load_halves(s->acc),
	};
	struct sums g;
	const u8 *p;

	if (!len)
		return;
	s->len += len;
	if (len > STEP_BYTES)
		text_steps(key, decrypting, &m);
	p = power(&key->h, blocks_of(m.len));
	mul_set1(&g, m.acc, p);
	text_rest(key, decrypting, &m, &g, p);
	store1(s->acc, reduce(&g));
}

/* The associated data but for the last block, to which it is added. */
static __always_inline __m128i associated(const struct gcm_key *key, const u8 *aad, size_t len)
{
	const size_t before = (len - 1) / AES_BLOCK_SIZE, last = len - AES_BLOCK_SIZE * before;
	__m128i a = last == AES_BLOCK_SIZE ? load1(aad + AES_BLOCK_SIZE * before) :
					     load_part(aad + AES_BLOCK_SIZE * before, last);

	a = _mm_shuffle_epi8(a, load1(reverse));
	if (before)
		a = _mm_xor_si128(a, hash_blocks(&key->h, _mm_setzero_si128(), aad, before,
						 true));
	return a;
}

/* A whole message to its tag. */
static __always_inline __m128i whole(const struct gcm_key *key, const bool decrypting,
				     u8 *dst, const u8 *src, size_t len, const u8 *aad,
				     size_t aadlen, struct gcm_iv iv)
{
	struct progress m = {
		.dst = dst, .src = src, .len = len,
		.counter = counters(iv.first, iv.last, 0),
		.acc = _mm_setzero_si128(),
	};
	const __m128i lengths = _mm_set_epi64x(8 * aadlen, 8 * len);
	const __m128i mask = encrypt1(&key->aes, _mm_set_epi64x(
		(u64)__builtin_bswap32(1) << 32 | iv.last, iv.first));
	struct sums g;
	const u8 *p;

	if (aadlen)
		m.acc = associated(key, aad, aadlen);
	if (len > STEP_BYTES) {
		if (aadlen) {
			mul_set1(&g, m.acc, power(&key->h, 1));
			m.acc = reduce(&g);
		}
		text_steps(key, decrypting, &m);
		/* One block less between it and the end. */
		p = power(&key->h, blocks_of(m.len) + 1);
		mul_set2(&g, m.acc, p, lengths, power(&key->h, 1));
	} else {
		p = power(&key->h, blocks_of(len) + 1);
		mul_set2(&g, m.acc, p - AES_BLOCK_SIZE, lengths, power(&key->h, 1));
	}
	text_rest(key, decrypting, &m, &g, p);
	return _mm_xor_si128(mask, _mm_shuffle_epi8(reduce(&g), load1(reverse)));
}

void GCM(encrypt)(const struct gcm_key *key, struct gcm_state *state, u8 *dst, const u8 *src,
		  size_t len)
{
	assert_fpu_section();
	piece(key, state, false, dst, src, len);
	v_end();
}

void GCM(decrypt)(const struct gcm_key *key, struct gcm_state *state, u8 *dst, const u8 *src,
		  size_t len)
{
	assert_fpu_section();
	piece(key, state, true, dst, src, len);
	v_end();
}

void GCM(seal)(const struct gcm_key *key, u8 *dst, const u8 *src, size_t len, const u8 *aad,
	       size_t aadlen, struct gcm_iv iv, u8 *tag, size_t tagsize)
{
	__m128i t;

	assert_fpu_section();
	t = whole(key, false, dst, src, len, aad, aadlen, iv);
	if (likely(tagsize == AES_BLOCK_SIZE))
		store1(tag, t);
	else
		store_part(tag, tagsize, t);
	v_end();
}

bool GCM(open)(const struct gcm_key *key, u8 *dst, const u8 *src, size_t len, const u8 *aad,
	       size_t aadlen, struct gcm_iv iv, const u8 *tag, size_t tagsize)
{
	__m128i t;
	u64 wrong;

	assert_fpu_section();
	t = whole(key, true, dst, src, len, aad, aadlen, iv);
	if (likely(tagsize == AES_BLOCK_SIZE))
		t = _mm_xor_si128(t, load1(tag));
	else
		t = _mm_xor_si128(keep1(t, tagsize), load_part(tag, tagsize));
	wrong = _mm_cvtsi128_si64(t) | _mm_extract_epi64(t, 1);
	v_end();
	return !wrong;
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
