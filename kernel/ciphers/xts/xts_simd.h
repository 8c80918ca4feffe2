/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * AES-XTS with vector registers: the template that every SIMD tier includes once.
 *
 * The including file includes one of simd/vec_*.h first and defines
 *
 *	XTS(name)	full name of an entry point of this tier
 *
 * Number of vectors. Eight vectors in flight just saturate an AES unit that starts two rounds per
 * cycle with a latency of four cycles, so any other vector operation on one of its ports costs an
 * AES slot. With more vectors in flight, the slack absorbs these operations (measured on Zen 5:
 * 7.06 cycles per vector with 16 zmm, 7.4 with 8; the limit is 7). With 16 registers, only eight
 * vectors fit.
 *
 * Tweaks and keys. The tweaks of the next MAIN vectors are computed between the rounds of the
 * current ones and kept in memory. Each tweak is used a second time up to fourteen rounds later and
 * would occupy a register until then. Each round key is loaded once per MAIN vectors, when it is
 * needed. A short message therefore does not have to load fifteen keys first, and the same code
 * handles all three key sizes. Loading a round key and broadcasting it to a whole vector can cost a
 * vector operation. Copies of the keys that are already as wide as a vector would save this
 * operation in each step. On Zen 4, however, messages of up to 16 KiB lost more time to writing and
 * wiping the copies than they gained.
 *
 * Lower bound on Zen 4 for AES-256: 56 cycles for the first tweak (14 rounds of four cycles), plus
 * 14 cycles per 64 bytes for the rounds. That is 168, 280 and 952 cycles for 512, 1024 and 4096
 * bytes.
 *
 * simd_tweaks.h contains the tweaks and simd_rounds.h the rounds. This file contains ciphertext
 * stealing, the paths for short, medium and long messages, and the entry points.
 */

#include <kiln/fpu_assert.h>

#include "../simd/rounds.h"
#include "xts.h"

#include "simd_tweaks.h"
#include "simd_rounds.h"

/* Ends a step of the main loop: the next tweaks become the current ones. */
static __always_inline void tweaks_step(struct tweaks *tk)
{
	u8 *used = tk->tw;

	tk->tw = tk->next;
	tk->next = used;
}

/*
 * PSHUFB patterns for unaligned loads: the pattern at shift16 + 16 - n moves bytes up by n and
 * clears the n lowest; the pattern at shift16 + 16 + n moves bytes down by n.
 */
static const u8 shift16[48] __aligned(16) = {
	0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
	0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
	0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
	0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
};

/*
 * The second half of ciphertext stealing (IEEE 1619, 5.3.2). @full is the result of the last whole
 * block, which is at @src and is followed by r bytes, 0 < r < 16. These 16 + r bytes are read and
 * written as two overlapping 16-byte words, the later one first. Nothing beyond the message is
 * accessed, and in-place operation works.
 */
static __always_inline void steal(const round_key *rk, u32 rounds,
				  const bool decrypt, u8 *dst, const u8 *src,
				  size_t r, __m128i full, __m128i t)
{
	const __m128i down = load1(shift16 + 32 - r);
	const __m128i up = load1(shift16 + r);
	const __m128i tail = _mm_shuffle_epi8(load1(src + r), down);
	/*
	 * In @down, the top bit is set in exactly those bytes where @tail has a zero instead of a
	 * message byte. PBLENDVB could select by that bit, but with -funsigned-char, which Linux
	 * has used since 6.2, gcc 12 assumes that the bit is clear.
	 */
	const __m128i there = _mm_shuffle_epi8(_mm_set1_epi32(-1), down);
	const __m128i mixed = _mm_or_si128(tail, _mm_andnot_si128(there, full));

	store1(dst + r, _mm_shuffle_epi8(full, up));
	store1(dst, xts_block(rk, rounds, decrypt, mixed, t));
}

/* Processes the last whole block, whose tweak is @t, and the r bytes after it. */
static __always_inline void crypt_stealing(const round_key *rk, u32 rounds,
					   const bool decrypt, u8 *dst,
					   const u8 *src, size_t r, __m128i t)
{
	const __m128i t2 = mul_x(t);
	const __m128i full = xts_block(rk, rounds, decrypt, load1(src),
				       decrypt ? t2 : t);

	steal(rk, rounds, decrypt, dst, src, r, full, decrypt ? t : t2);
}

/*
 * Processes the end of a message: @blocks whole blocks at @src, which fit in one vector, and then r
 * bytes. The tweaks are in @t with four-block vectors, and at @tw otherwise. If r is not 0, @blocks
 * is at least 1.
 */
#if VBLOCKS == 4
#define REST_TWEAK(tw) v_load(tw)
/*
 * VPERMQ patterns: the pattern at lanes + 2n moves block n of a vector down to the first place.
 */
static const u64 lanes[14] = { 0, 1, 2, 3, 4, 5, 6, 7 };

static __always_inline void crypt_rest(const round_key *keys, u32 rounds,
				       const bool decrypt, u8 *dst, const u8 *src,
				       vec_t t, size_t blocks, size_t r)
{
	const size_t last = AES_BLOCK_SIZE * (blocks - 1);
	const vec_t lane = v_load(lanes + 2 * (blocks - 1));
	const u8 *rk = keys[0];
	const bool wide = false;
	u8 *const keep = NULL;
	__m128i t1 = _mm_setzero_si128(), t2 = t1;
	vec_t d0;

	if (r) {
		t1 = _mm512_castsi512_si128(_mm512_permutexvar_epi64(lane, t));
		if (blocks < 4)
			t2 = _mm512_castsi512_si128(_mm512_permutexvar_epi64(
				v_load(lanes + 2 * blocks), t));
		else
			t2 = mul_x(t1);
		if (decrypt)
			t = _mm512_mask_broadcast_i32x4(t, 0xfu << 4 * (blocks - 1),
							t2);
	}
	d0 = v_xor3(v_load_blocks(src, blocks), KEY(0), t);
	XTS_ROUNDS(EACH_1, NO_STEP);
	d0 = LAST(d0, v_xor(KEY(rounds), t));
	if (r) {
		const __m128i full = _mm512_castsi512_si128(
			_mm512_permutexvar_epi64(lane, d0));

		v_store_blocks(dst, blocks - 1, d0);
		steal(keys, rounds, decrypt, dst + last, src + last, r, full,
		      decrypt ? t1 : t2);
	} else {
		v_store_blocks(dst, blocks, d0);
	}
}
#else
#define REST_TWEAK(tw) tw
static __always_inline void crypt_rest(const round_key *rk, u32 rounds,
				       const bool decrypt, u8 *dst, const u8 *src,
				       const u8 *tw, size_t blocks, size_t r)
{
	/* At most one whole block remains in addition to the one that takes part in stealing. */
	if (blocks > (r != 0)) {
		store1(dst, xts_block(rk, rounds, decrypt, load1(src), load1(tw)));
		dst += AES_BLOCK_SIZE;
		src += AES_BLOCK_SIZE;
		tw += AES_BLOCK_SIZE;
	}
	if (r)
		crypt_stealing(rk, rounds, decrypt, dst, src, r, load1(tw));
}
#endif

/* Processes a message of at least two blocks. @first is the first tweak of the message. */
static __always_inline void xts_long(const struct xts_key *key, u8 *dst,
				     const u8 *src, size_t len, __m128i first,
				     const bool decrypt)
{
	const round_key *rk = decrypt ? key->data.dec : key->data.enc;
	const u32 rounds = key->data.rounds;
	const size_t r = len % AES_BLOCK_SIZE, whole = len / AES_BLOCK_SIZE;
	/* If stealing follows, the last whole block belongs to the rest. */
	const size_t rest = r ? (whole - 1) % VBLOCKS + 1 : whole % VBLOCKS;
	size_t blocks = whole - rest;
	u8 buffer[2][MAIN * VBYTES] __aligned(64);
	struct tweaks tk = { .tw = buffer[0], .next = buffer[1] };
	const u8 *tw;

	tweaks_begin(&tk, first, whole);

	/* Reload tweaks and keys in each step: there are not enough registers to keep them. */
#define MAIN_STEP(next)                                                       \
	do {                                                                  \
		barrier();                                                    \
		crypt_main(rk[0], rounds, decrypt, dst, src, tk.tw, next);    \
		tweaks_step(&tk);                                             \
		dst += MAIN * VBYTES;                                         \
		src += MAIN * VBYTES;                                         \
		blocks -= MAIN * VBLOCKS;                                     \
	} while (0)
	while (blocks >= MAIN * VBLOCKS && blocks + rest > MAIN * VBLOCKS)
		MAIN_STEP(&tk);
	/* If no text follows this step, the next tweaks are not needed. */
	if (blocks == MAIN * VBLOCKS) {
		MAIN_STEP(NULL);
		return;
	}

	tw = tk.tw;
#define TAIL(n)                                                               \
	if (blocks & (n * VBLOCKS)) {                                         \
		crypt_##n(rk[0], rounds, decrypt, dst, src, tw, NULL);        \
		dst += n * VBYTES;                                            \
		src += n * VBYTES;                                            \
		tw += n * VBYTES;                                             \
	}
#if MAIN == 16
	TAIL(8)
#endif
	TAIL(4)
	TAIL(2)
	TAIL(1)
	if (rest)
		crypt_rest(rk, rounds, decrypt, dst, src, REST_TWEAK(tw), rest, r);
}

/* Processes a message of less than two blocks, without the stack frame of the long path. */
static __always_inline void xts_short(const struct xts_key *key, u8 *dst,
				      const u8 *src, size_t len, const u8 *iv,
				      const bool decrypt)
{
	const round_key *rk = decrypt ? key->data.dec : key->data.enc;
	const u32 rounds = key->data.rounds;
	const __m128i almost = begin_tweak(&key->tweak, iv);
	const __m128i last = load1(key->tweak.enc[key->tweak.rounds]);
	const __m128i t = _mm_aesenclast_si128(almost, last);

	if (len == AES_BLOCK_SIZE) {
		/*
		 * XOR the whitened block into the round key of the tweak's last round, to remove
		 * one XOR from the critical path.
		 */
		const __m128i p = _mm_aesenclast_si128(almost, _mm_xor_si128(
			last, _mm_xor_si128(load1(src), load1(rk[0]))));

		store1(dst, all_rounds(rk, rounds, decrypt, p,
				       _mm_xor_si128(load1(rk[rounds]), t)));
	} else {
		crypt_stealing(rk, rounds, decrypt, dst, src,
			       len - AES_BLOCK_SIZE, t);
	}
}

/* Processes a piece of less than two blocks, given the tweak of its first block. */
static __always_inline void xts_short_piece(const struct xts_key *key, u8 *dst,
					    const u8 *src, size_t len, __m128i t,
					    const bool decrypt)
{
	const round_key *rk = decrypt ? key->data.dec : key->data.enc;
	const u32 rounds = key->data.rounds;

	if (len == AES_BLOCK_SIZE)
		store1(dst, xts_block(rk, rounds, decrypt, load1(src), t));
	else
		crypt_stealing(rk, rounds, decrypt, dst, src,
			       len - AES_BLOCK_SIZE, t);
}

#if VBLOCKS == 4
/* Processes at most one vector of whole blocks, without stored tweaks and without a stack frame. */
static __always_inline void xts_medium(const struct xts_key *key, u8 *dst,
				       const u8 *src, size_t len, __m128i first,
				       const bool decrypt)
{
	const vec_t all = _mm512_broadcast_i32x4(first);

	crypt_rest(decrypt ? key->data.dec : key->data.enc, key->data.rounds,
		   decrypt, dst, src, tweaks_from(all, 0), len / AES_BLOCK_SIZE,
		   len % AES_BLOCK_SIZE);
}
#define XTS_LONGER(direction) \
	(len < VBYTES + AES_BLOCK_SIZE ? XTS(direction##_medium) : XTS(direction##_long))
#else
#define XTS_LONGER(direction) XTS(direction##_long)
#endif

#define XTS_PATH(path, direction, decrypt)                                    \
static noinline void XTS(direction##_##path)(const struct xts_key *key,       \
					     u8 *dst, const u8 *src,          \
					     size_t len, __m128i first)       \
{                                                                             \
	xts_##path(key, dst, src, len, first, decrypt);                       \
	v_end();                                                              \
}
#define XTS_ENTRY(direction, decrypt)                                         \
void XTS(direction)(const void *ctx, u8 *dst, const u8 *src, size_t len, u8 *iv) \
{                                                                             \
	assert_fpu_section();                                                 \
	if (len < 2 * AES_BLOCK_SIZE)                                         \
		xts_short(ctx, dst, src, len, iv, decrypt);                   \
	else                                                                  \
		XTS_LONGER(direction)(ctx, dst, src, len, first_tweak(ctx, iv)); \
}                                                                             \
void XTS(direction##_piece)(const void *ctx, u8 *dst, const u8 *src,          \
			    size_t len, u8 *tweak)                            \
{                                                                             \
	assert_fpu_section();                                                 \
	if (!len)                                                             \
		return;                                                       \
	if (len < 2 * AES_BLOCK_SIZE)                                         \
		xts_short_piece(ctx, dst, src, len, load1(tweak), decrypt);   \
	else                                                                  \
		XTS_LONGER(direction)(ctx, dst, src, len, load1(tweak));      \
	xts_tweak_advance(tweak, len / AES_BLOCK_SIZE);                       \
}
#if VBLOCKS == 4
XTS_PATH(medium, encrypt, false)
XTS_PATH(medium, decrypt, true)
#endif
XTS_PATH(long, encrypt, false)
XTS_PATH(long, decrypt, true)
XTS_ENTRY(encrypt, false)
XTS_ENTRY(decrypt, true)

void XTS(first_tweak)(const void *ctx, u8 *iv)
{
	assert_fpu_section();
	store1(iv, first_tweak(ctx, iv));
}
