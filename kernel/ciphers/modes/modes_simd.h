/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The AES modes with vector registers: the template that every SIMD tier includes once, after
 * simd/rounds.h and after defining MODES(name), the full name of an entry point.
 */
#include <kiln/fpu_assert.h>
#include <kiln/string.h>

#include "../simd/rounds.h"
#include "modes.h"

enum mode { ECB_ENCRYPT, ECB_DECRYPT, CBC_DECRYPT, CTR };

/*
 * crypt_n: processes n vectors. For CTR, @chain holds the counters of the next vector as
 * little-endian numbers. For CBC, @chain is the vector before @src; only its last block is used.
 *
 * Results are written from the last vector to the first. This allows in-place operation, although
 * CBC decryption XORs each block with the previous block of the source.
 */
#define COUNT(j)                                           \
	d##j = v_xor(v_shuffle(*chain, order), k0);        \
	*chain = v_add64(*chain, step);
#define WHITEN(j) d##j = v_xor(v_load(src + j * VBYTES), k0);
#define OUT(j)                                                                        \
	switch (mode) {                                                               \
	case CTR:                                                                     \
		d##j = v_enclast(d##j, v_xor(k, v_load(src + j * VBYTES)));           \
		break;                                                                \
	case CBC_DECRYPT:                                                             \
		d##j = v_declast(d##j, v_xor(k, j ?                                   \
			v_load(src + j * VBYTES - AES_BLOCK_SIZE) :                   \
			v_before(*chain, v_load(src))));                              \
		break;                                                                \
	default:                                                                      \
		d##j = decrypt ? v_declast(d##j, k) : v_enclast(d##j, k);             \
	}                                                                             \
	v_store(dst + j * VBYTES, d##j);

#define CRYPT_FUNC(n, count, EACH, DOWN)                                              \
static __always_inline void crypt_##n(const u8 *rk, const bool wide, u32 rounds,      \
				      const enum mode mode, u8 *dst, const u8 *src,   \
				      vec_t *chain, u8 *keep)                         \
{                                                                                     \
	const bool decrypt = mode == ECB_DECRYPT || mode == CBC_DECRYPT;              \
	const vec_t k0 = KEY(0);                                                      \
	EACH(DECLARE)                                                                 \
										      \
	if (mode == CTR) {                                                            \
		const vec_t order = v_key(reverse), step = v_low64(VBLOCKS);          \
		EACH(COUNT)                                                           \
	} else {                                                                      \
		EACH(WHITEN)                                                          \
	}                                                                             \
	KEEP(0, k0)                                                                   \
	ROUNDS(EACH, NO_STEP);                                                        \
	do {                                                                          \
		const vec_t k = LAST_KEY;                                          \
		const vec_t next = mode == CBC_DECRYPT ?                              \
			v_load(src + (count - 1) * VBYTES) : *chain;                  \
		KEEP(10, k)                                                           \
		DOWN(OUT)                                                             \
		*chain = next;                                                        \
	} while (0);                                                                  \
}
CRYPT_FUNC(1, 1, EACH_1, DOWN_1)
CRYPT_FUNC(2, 2, EACH_2, DOWN_2)
CRYPT_FUNC(4, 4, EACH_4, DOWN_4)
#if MAIN == 16
CRYPT_FUNC(8, 8, EACH_8, DOWN_8)
#endif
CRYPT_FUNC(main, MAIN, EACH_MAIN, DOWN_MAIN)

/* Processes less than a vector. Only CTR may end within a block. */
#if VBLOCKS == 4
static __always_inline void crypt_rest(const struct aes_key *key, const enum mode mode,
				       u8 *dst, const u8 *src, size_t len, vec_t chain)
{
	const bool decrypt = mode == ECB_DECRYPT || mode == CBC_DECRYPT, wide = false;
	const u8 *rk = decrypt ? key->dec[0] : key->enc[0];
	const u32 rounds = key->rounds;
	u8 *keep = NULL;
	vec_t d0, last;

	if (mode == CTR) {
		last = v_load_part(src, len);
		d0 = v_xor(v_shuffle(chain, v_key(reverse)), KEY(0));
	} else {
		const vec_t s = v_load_blocks(src, len / AES_BLOCK_SIZE);

		last = mode == CBC_DECRYPT ? v_before(chain, s) : v_zero();
		d0 = v_xor(s, KEY(0));
	}
	ROUNDS(EACH_1, NO_STEP);
	last = v_xor(LAST_KEY, last);
	d0 = decrypt ? v_declast(d0, last) : v_enclast(d0, last);
	if (mode == CTR)
		v_store_part(dst, len, d0);
	else
		v_store_blocks(dst, len / AES_BLOCK_SIZE, d0);
}
#else
static __always_inline void crypt_rest(const struct aes_key *key, const enum mode mode,
				       u8 *dst, const u8 *src, size_t len, vec_t chain)
{
	__m128i last = v_first(mode == CBC_DECRYPT ? v_before(chain, chain) : chain);

	for (; len >= AES_BLOCK_SIZE; len -= AES_BLOCK_SIZE) {
		const __m128i s = load1(src);
		__m128i d;

		switch (mode) {
		case CTR:
			d = _mm_xor_si128(s, encrypt1(key, _mm_shuffle_epi8(last, load1(reverse))));
			last = _mm_add_epi64(last, _mm_set_epi64x(0, 1));
			break;
		case CBC_DECRYPT:
			d = _mm_xor_si128(last, decrypt1(key, s));
			last = s;
			break;
		default:
			d = mode == ECB_DECRYPT ? decrypt1(key, s) : encrypt1(key, s);
		}
		store1(dst, d);
		src += AES_BLOCK_SIZE;
		dst += AES_BLOCK_SIZE;
	}
	if (mode == CTR && len)
		store_part(dst, len, _mm_xor_si128(load_part(src, len), encrypt1(key,
			_mm_shuffle_epi8(last, load1(reverse)))));
}
#endif

static __always_inline void crypt_long(const struct aes_key *key, const enum mode mode,
				       u8 *dst, const u8 *src, size_t len, vec_t chain)
{
	const bool decrypt = mode == ECB_DECRYPT || mode == CBC_DECRYPT;
	const u8 *rk = decrypt ? key->dec[0] : key->enc[0];
	const u32 rounds = key->rounds;

#define STEP(keys, wide, keep)                                                  \
	do {                                                                    \
		/* Keep the keys in memory: there are not enough registers for them. */ \
		barrier();                                                      \
		crypt_main(keys, wide, rounds, mode, dst, src, &chain, keep);   \
		dst += MAIN * VBYTES;                                           \
		src += MAIN * VBYTES;                                           \
		len -= MAIN * VBYTES;                                           \
	} while (0)
#if VBLOCKS == 4
	/*
	 * Limit: if two operations on 32 bytes start per cycle, 14 rounds take 14 cycles per 64
	 * bytes, or 896 cycles for 4096 bytes. A copy of the keys, each widened to a vector, saves
	 * one load per round, but has to be written and wiped. On Zen 4, the copy speeds up only
	 * CBC messages of 16 KiB or more (by 1 to 2 %). CTR of 4096 bytes takes 985 to 1015 cycles
	 * with the copy and 905 to 950 without it.
	 */
	if (mode == CBC_DECRYPT && len >= 4 * MAIN * VBYTES) {
		struct wide_keys keys;

		STEP(rk, false, keys.k);
		do
			STEP(keys.k, true, NULL);
		while (len >= MAIN * VBYTES);
		wipe_keys(&keys, rounds);
	}
	/*
	 * Run two half steps, so that the first rounds of the second half use the slots that the
	 * last rounds of the first half leave free.
	 */
	for (; len >= MAIN * VBYTES; len -= MAIN * VBYTES) {
		barrier();
		crypt_8(rk, false, rounds, mode, dst, src, &chain, NULL);
		dst += 8 * VBYTES;
		src += 8 * VBYTES;
		crypt_8(rk, false, rounds, mode, dst, src, &chain, NULL);
		dst += 8 * VBYTES;
		src += 8 * VBYTES;
	}
#else
	while (len >= MAIN * VBYTES)
		STEP(rk, VBLOCKS == 1, NULL);
#endif
#define TAIL(n)                                                         \
	if (len & n * VBYTES) {                                         \
		crypt_##n(rk, false, rounds, mode, dst, src, &chain, NULL); \
		dst += n * VBYTES;                                      \
		src += n * VBYTES;                                      \
	}
#if MAIN == 16
	TAIL(8)
#endif
	TAIL(4)
	TAIL(2)
	TAIL(1)
	if (len % VBYTES)
		crypt_rest(key, mode, dst, src, len % VBYTES, chain);
}

/*
 * MACs and random number generators encrypt single blocks, which need neither a stack frame nor
 * wide vectors. A separate function processes longer messages.
 */
#define ECB(direction, DIRECTION)                                                     \
static noinline void ecb_##direction##_long(const struct aes_key *key, u8 *dst, const u8 *src, \
					    size_t len)                               \
{                                                                                     \
	crypt_long(key, ECB_##DIRECTION, dst, src, len, v_zero());                    \
	v_end();                                                                      \
}                                                                                     \
void MODES(ecb_##direction)(const void *ctx, u8 *dst, const u8 *src, size_t len, u8 *iv __maybe_unused) \
{                                                                                     \
	assert_fpu_section();                                                         \
	if (len == AES_BLOCK_SIZE)                                                    \
		store1(dst, direction##1(ctx, load1(src)));                           \
	else                                                                          \
		ecb_##direction##_long(ctx, dst, src, len);                           \
}
ECB(encrypt, ENCRYPT)
ECB(decrypt, DECRYPT)

static noinline void cbc_decrypt_long(const struct aes_key *key, u8 *dst, const u8 *src,
				      size_t len, __m128i before)
{
	crypt_long(key, CBC_DECRYPT, dst, src, len, v_all(before));
	v_end();
}

void MODES(cbc_decrypt)(const void *ctx, u8 *dst, const u8 *src, size_t len, u8 *iv)
{
	__m128i before;

	assert_fpu_section();
	if (!len)
		return;
	before = load_halves(iv);
	store1(iv, load1(src + len - AES_BLOCK_SIZE));
	if (len == AES_BLOCK_SIZE)
		store1(dst, _mm_xor_si128(before, decrypt1(ctx, load1(src))));
	else
		cbc_decrypt_long(ctx, dst, src, len, before);
}

static __always_inline __m128i cbc_load(const u8 *src, const u8 *dst)
{
	/*
	 * A MAC's data may just have been written as 64-bit words. Load it as 64-bit words, too,
	 * because a wider load would wait for both stores.
	 */
	return dst ? load1(src) : load_halves(src);
}

/*
 * Serial CBC: each block waits for all rounds of the previous block and for nothing else. The last
 * round key is XORed beforehand with the next block and the first round key, so the last round
 * directly yields the next block, already whitened. XORing that block and the first round key out
 * again gives the ciphertext.
 */
static __always_inline __m128i cbc_chain(const struct aes_key *key, u8 *dst, const u8 *src,
					 size_t blocks, __m128i acc)
{
	const round_key *rk = key->enc;
	const u32 rounds = key->rounds;
	const __m128i k0 = load1(rk[0]), last = load1(rk[rounds]);
	__m128i d = _mm_xor_si128(acc, _mm_xor_si128(cbc_load(src, dst), k0));

	for (; --blocks; ) {
		const __m128i next = _mm_xor_si128(cbc_load(src + AES_BLOCK_SIZE, dst), k0);

		d = inner_rounds(rk, rounds, false, d);
		d = _mm_aesenclast_si128(d, _mm_xor_si128(last, next));
		if (dst) {
			store1(dst, _mm_xor_si128(d, next));
			dst += AES_BLOCK_SIZE;
		}
		src += AES_BLOCK_SIZE;
	}
	d = _mm_aesenclast_si128(inner_rounds(rk, rounds, false, d), last);
	if (dst)
		store1(dst, d);
	return d;
}

void MODES(cbc_encrypt)(const void *ctx, u8 *dst, const u8 *src, size_t len, u8 *iv)
{
	assert_fpu_section();
	if (len)
		store1(iv, cbc_chain(ctx, dst, src, len / AES_BLOCK_SIZE, load_halves(iv)));
}

void MODES(mac)(const struct aes_key *key, u8 acc[AES_BLOCK_SIZE], const u8 *data,
		size_t blocks)
{
	assert_fpu_section();
	if (blocks)
		store1(acc, cbc_chain(key, NULL, data, blocks, load_halves(acc)));
}

#include "cbc_many.h"

/*
 * Encrypts or decrypts, starting with the counter hi:lo. The lower half of the counter must not
 * overflow.
 */
static __always_inline void ctr_run(const struct aes_key *key, u8 *dst, const u8 *src,
				    size_t len, u64 hi, u64 lo)
{
	crypt_long(key, CTR, dst, src, len,
		   v_add64(v_all(_mm_set_epi64x(hi, lo)), v_number()));
}

static noinline void ctr_carrying(const struct aes_key *key, u8 *dst, const u8 *src,
				  size_t len, u64 hi, u64 lo)
{
	/*
	 * Number of bytes before the lower half overflows. This function is called only for
	 * messages in which it overflows, so lo is not 0.
	 */
	const size_t first = -lo * AES_BLOCK_SIZE;

	ctr_run(key, dst, src, first, hi, lo);
	ctr_run(key, dst + first, src + first, len - first, hi + 1, 0);
}

static noinline void ctr_long(const struct aes_key *key, u8 *dst, const u8 *src, size_t len,
			      u8 *iv)
{
	const u64 hi = __builtin_bswap64(get_le64(iv));
	const u64 lo = __builtin_bswap64(get_le64(iv + 8));
	const u64 after = lo + (len + AES_BLOCK_SIZE - 1) / AES_BLOCK_SIZE;

	put_le64(__builtin_bswap64(hi + (after < lo)), iv);
	put_le64(__builtin_bswap64(after), iv + 8);
	if (unlikely(after < lo && after))
		ctr_carrying(key, dst, src, len, hi, lo);
	else
		ctr_run(key, dst, src, len, hi, lo);
	v_end();
}

void MODES(ctr)(const void *ctx, u8 *dst, const u8 *src, size_t len, u8 *iv)
{
	assert_fpu_section();
	if (len == AES_BLOCK_SIZE) {
		const u64 left = get_le64(iv), right = get_le64(iv + 8);
		const u64 after = __builtin_bswap64(right) + 1;

		put_le64(__builtin_bswap64(after), iv + 8);
		if (unlikely(!after))
			put_le64(__builtin_bswap64(__builtin_bswap64(left) + 1), iv);
		store1(dst, _mm_xor_si128(load1(src),
					  encrypt1(ctx, _mm_set_epi64x(right, left))));
	} else {
		ctr_long(ctx, dst, src, len, iv);
	}
}
