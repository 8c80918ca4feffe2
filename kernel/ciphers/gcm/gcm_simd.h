/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES-GCM with vector registers: the template that every SIMD tier includes once, after
 * simd/rounds.h and after defining GCM(name), the full name of an entry point of the tier.
 *
 * While more than MAIN vectors remain, the main loop processes MAIN vectors per step (gcm_step.h).
 * A step interleaves AES rounds with the multiplications of MAIN vectors of ciphertext and one
 * reduction. When encrypting, that ciphertext is from the previous step. The rest of the text, from
 * one byte to eight vectors, is summed up together with the previous result and the final block of
 * lengths, and reduced once. Messages of at most eight vectors need only this last part.
 */
#include <kiln/fpu_assert.h>

#include "gcm_step.h"

#define COUNT(j)                                           \
	d##j = v_xor(v_shuffle(*counter, order), k0);      \
	*counter = v_add64(*counter, v_low64(VBLOCKS));
#define HASH(j) mul_add(g, v_shuffle(v_load(cipher + (j) * VBYTES), order), p + (j) * VBYTES)

/*
 * text_n processes n vectors. It multiplies their ciphertext by the powers that start at @p, and
 * adds the products to the sums.
 */
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
	u8 *keep = NULL;                                                              \
	const u32 rounds = key->aes.rounds;                                           \
	const vec_t order = v_key(reverse), k0 = KEY(0);                              \
	enum { vectors = n };                                                         \
	EACH(DECLARE)                                                                 \
										      \
	EACH(COUNT)                                                                   \
	ROUNDS(EACH, HASH_DECRYPTED);                                                 \
	do {                                                                          \
		const vec_t k = LAST_KEY;                                          \
		EACH(OUT)                                                             \
	} while (0);                                                                  \
	EACH(HASH_ENCRYPTED)                                                          \
}
TEXT_FUNC(1, EACH_1)
TEXT_FUNC(2, EACH_2)
TEXT_FUNC(4, EACH_4)
TEXT_FUNC(8, EACH_8)

/* Processes the last vector, which has @len bytes, 0 < len <= VBYTES. */
static __always_inline void text_part(const struct gcm_key *key, const bool decrypting,
				      u8 *dst, const u8 *src, size_t len, vec_t *counter,
				      struct sums *g, const u8 *p)
{
	const bool wide = false, decrypt = false;
	const u8 *rk = key->aes.enc[0];
	u8 *keep = NULL;
	const u32 rounds = key->aes.rounds;
	const vec_t order = v_key(reverse), k0 = KEY(0), in = v_load_part(src, len);
	vec_t d0;

	EACH_1(COUNT)
	if (decrypting)
		mul_add(g, v_shuffle(in, order), p);
	ROUNDS(EACH_1, NO_STEP);
	d0 = v_enclast(d0, v_xor(LAST_KEY, in));
	v_store_part(dst, len, d0);
	if (!decrypting)
		mul_add(g, v_shuffle(v_keep(d0, len), order), p);
}

#define STREAM_BYTES (MAIN == 16 ? SUM_BYTES : 1)

/* The position in a message, and what has been computed ahead for the following steps. */
struct progress {
	u8 *dst;
	const u8 *src;
	size_t len;
	vec_t next;	/* counter of the next block, little-endian, repeated in every lane */
	__m128i acc;
	const u8 *cipher;	/* the last @pending blocks of ciphertext, not yet added to @acc */
	size_t pending;
	u8 *stream;	/* NULL, or a buffer for the key stream of the remaining text */
	bool streams;	/* whether @stream has been filled */
};

static __always_inline void advance(struct progress *m, size_t bytes)
{
	m->dst += bytes;
	m->src += bytes;
	m->len -= bytes;
}

#if MAIN == 16
/*
 * Like text_some(), but takes the key stream from @stream, where an earlier step wrote it, and
 * wipes it.
 */
static __always_inline void stream_some(u8 *stream, u8 *dst, const u8 *src, size_t len,
					struct sums *g, const u8 *p)
{
	const vec_t order = v_key(reverse);
	vec_t d;
	size_t i;

	for (i = 0; i + VBYTES <= len; i += VBYTES) {
		d = v_xor(v_load(stream + i), v_load(src + i));
		v_store(dst + i, d);
		mul_add(g, v_shuffle(d, order), p + i);
	}
	if (i < len) {
		d = v_xor(v_load(stream + i), v_load_part(src + i, len - i));
		v_store_part(dst + i, len - i, d);
		mul_add(g, v_shuffle(v_keep(d, len - i), order), p + i);
	}
	for (i = 0; i < SUM_BYTES; i += VBYTES)
		v_store(stream + i, v_zero());
	__asm__ volatile("" : : "r"(stream) : "memory");
}
#endif

/*
 * Processes at most eight vectors, multiplies their ciphertext by the powers that start at @p, and
 * adds the products to the sums.
 */
static __always_inline void text_some(const struct gcm_key *key, const bool decrypting,
				      struct progress *m, size_t len, struct sums *g,
				      const u8 *p)
{
	vec_t counter = v_add64(m->next, v_number());
	u8 *dst = m->dst;
	const u8 *src = m->src;

	advance(m, len);
#if MAIN == 16
	if (m->streams) {
		stream_some(m->stream, dst, src, len, g, p);
		return;
	}
#endif
#define SOME(n)                                                         \
	if (len >= n * VBYTES) {                                        \
		text_##n(key, decrypting, dst, src, &counter, g, p);    \
		dst += n * VBYTES;                                      \
		src += n * VBYTES;                                      \
		len -= n * VBYTES;                                      \
		p += n * VBYTES;                                        \
	}
	SOME(8)
	SOME(4)
	SOME(2)
	SOME(1)
	if (len)
		text_part(key, decrypting, dst, src, len, &counter, g, p);
}

/*
 * Runs steps of the main loop until at most eight vectors remain. The counter must be FIRST plus a
 * multiple of the number of blocks per step.
 */
static __always_inline void text_steps(const struct gcm_key *key, const bool decrypting,
				       struct progress *m)
{
	const u32 rounds = key->aes.rounds;

	if (m->len > STEP_BYTES) {
		struct wide_keys wide;
		const u8 *keys = widen(&wide, key->aes.enc[0], rounds);
		const u8 *cipher = decrypting ? m->src : m->dst;

		if (!decrypting) {
			step_main(key, keys, m->dst, m->src, &m->next, NULL, true,
				  m->acc);
			advance(m, STEP_BYTES);
		}
		while (m->len > STEP_BYTES) {
			/*
			 * Prevents the compiler from keeping keys and powers in registers across
			 * steps.
			 */
			barrier();
			m->acc = step_main(key, keys, m->dst, m->src, &m->next, cipher,
					   true, m->acc);
			cipher = decrypting ? m->src + STEP_BYTES : m->dst;
			advance(m, STEP_BYTES);
		}
		if (!decrypting) {
			m->cipher = cipher;
			m->pending = STEP_BLOCKS;
		}
#if MAIN == 16
		if (!decrypting && m->len > SUM_BYTES) {
			m->acc = step_half(key, keys, m->dst, m->src, &m->next, cipher,
					   true, m->acc);
			m->cipher = m->dst;
			m->pending = SUM_BLOCKS;
			advance(m, SUM_BYTES);
		} else if (m->stream && !decrypting && m->len > SUM_BYTES / 2) {
			/* Compute the key stream for the rest while hashing the previous step. */
			vec_t next = m->next;

			m->acc = step_half(key, keys, m->stream, NULL, &next, cipher,
					   false, m->acc);
			m->streams = true;
			m->pending = 0;
		}
#endif
		wipe_keys(&wide, rounds);
	}
#if MAIN == 16
	if (m->len > SUM_BYTES) {
		struct sums g;
		const u8 *p = power(&key->h, SUM_BLOCKS);
		vec_t counter = v_add64(m->next, v_number());

		mul_set1(&g, m->acc, p);
		text_8(key, decrypting, m->dst, m->src, &counter, &g, p);
		m->next = v_add64(m->next, v_low64(SUM_BLOCKS));
		m->acc = reduce(&g);
		advance(m, SUM_BYTES);
	}
#endif
}

/*
 * Adds the pending blocks to @acc. Callers do so as late as possible, so that the CPU can process
 * the following data at the same time.
 */
static __always_inline void hash_pending(const struct gcm_key *key, struct progress *m)
{
	if (m->pending)
		m->acc = hash_blocks(&key->h, m->acc, m->cipher, m->pending, true);
	m->pending = 0;
}

/* Returns the counter after @blocks blocks of a message, with the IV in the bytes above it. */
static __always_inline vec_t number(u64 first, u32 last, u64 blocks)
{
	return v_all(_mm_set_epi64x(__builtin_bswap64(first),
		((u64)__builtin_bswap32(last) << 32 | FIRST) + blocks));
}

static __always_inline void piece(const struct gcm_key *key, struct gcm_state *s,
				  const bool decrypting, u8 *dst, const u8 *src, size_t len)
{
	struct progress m = {
		.dst = dst, .src = src, .len = len,
		.next = number(get_le64(s->j0), get_le32(s->j0 + 8),
			       s->len / AES_BLOCK_SIZE),
		.acc = load_halves(s->acc),
	};
	size_t ahead = -(s->len / AES_BLOCK_SIZE) % STEP_BLOCKS * AES_BLOCK_SIZE;

	s->len += len;
	while (m.len) {
		struct sums g;
		const u8 *p;
		size_t n = SUM_BYTES;

		if (!ahead)
			text_steps(key, decrypting, &m);
		else if (m.len > STEP_BYTES && ahead < n)
			n = ahead;
		n = m.len < n ? m.len : n;
		p = power(&key->h, blocks_of(n));
		hash_pending(key, &m);
		mul_set1(&g, m.acc, p);
		text_some(key, decrypting, &m, n, &g, p);
		m.next = v_add64(m.next, v_low64(n / AES_BLOCK_SIZE));
		m.acc = reduce(&g);
		ahead = (ahead - n) % (STEP_BLOCKS * AES_BLOCK_SIZE);
	}
	store1(s->acc, m.acc);
}

/*
 * Hashes the associated data. The result includes the last block, but has not been multiplied by
 * the key since that block was added.
 */
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

/* Processes a whole message and returns its tag. */
static __always_inline __m128i whole(const struct gcm_key *key, const bool decrypting,
				     u8 *dst, const u8 *src, size_t len, const u8 *aad,
				     size_t aadlen, struct gcm_iv iv)
{
	u8 stream[STREAM_BYTES] __aligned(VBYTES);
	struct progress m = {
		.dst = dst, .src = src, .len = len, .stream = stream,
		.next = number(iv.first, iv.last, 0),
		.acc = _mm_setzero_si128(),
	};
	const __m128i lengths = _mm_set_epi64x(8 * aadlen, 8 * len);
	const __m128i mask = encrypt1(&key->aes, _mm_set_epi64x(
		(u64)__builtin_bswap32(1) << 32 | iv.last, iv.first));
	struct sums g;
	const u8 *p;

	if (aadlen)
		m.acc = associated(key, aad, aadlen);
	if (len > SUM_BYTES) {
		if (aadlen) {
			mul_set1(&g, m.acc, power(&key->h, 1));
			m.acc = reduce(&g);
		}
		text_steps(key, decrypting, &m);
		/*
		 * @acc has already been multiplied once, so its power is one lower than in the
		 * other branch.
		 */
		p = power(&key->h, blocks_of(m.len) + 1);
		mul_set1(&g, lengths, power(&key->h, 1));
		text_some(key, decrypting, &m, m.len, &g, p);
		hash_pending(key, &m);
		mul_add1(&g, m.acc, p);
	} else {
		p = power(&key->h, blocks_of(len) + 1);
		mul_set2(&g, m.acc, p - AES_BLOCK_SIZE, lengths, power(&key->h, 1));
		text_some(key, decrypting, &m, len, &g, p);
	}
	return _mm_xor_si128(mask, _mm_shuffle_epi8(reduce(&g), load1(reverse)));
}

#define GCM_TEXT(direction, decrypting)                                               \
void GCM(direction)(const struct gcm_key *key, struct gcm_state *state, u8 *dst,      \
		    const u8 *src, size_t len)                                        \
{                                                                                     \
	assert_fpu_section();                                                         \
	piece(key, state, decrypting, dst, src, len);                                 \
	v_end();                                                                      \
}
GCM_TEXT(encrypt, false)
GCM_TEXT(decrypt, true)

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
