/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-1 with the SHA instructions: SHA1RNDS4 does four rounds, each after the four before,
 * twenty of them a block. The rest stays off that chain.
 */
#include <kiln/fpu_assert.h>

#include "../merkle_simd.h"
#include "sha1.h"

/* Rounds 4i to 4i + 3; @w has their words, and in its top word comes e. */
#define ROUNDS(i, w) do {                                                     \
	const __m128i before = abcd;                                          \
										      \
	e = (i) ? _mm_sha1nexte_epu32(e, w) : _mm_add_epi32(e, w);            \
	abcd = _mm_sha1rnds4_epu32(abcd, e, (i) / 5);                         \
	e = before;                                                           \
} while (0)

/* From w0, the words t - 16 ... t - 13, and those after them: words t ... t + 3, in w0. */
#define SCHEDULE(w0, w1, w2, w3)                                              \
	w0 = _mm_sha1msg2_epu32(_mm_xor_si128(_mm_sha1msg1_epu32(w0, w1), w2), w3)

#define FOUR(i) do {                                                          \
	SCHEDULE(w0, w1, w2, w3);                                             \
	ROUNDS(i, w0);                                                        \
	SCHEDULE(w1, w2, w3, w0);                                             \
	ROUNDS(i + 1, w1);                                                    \
	SCHEDULE(w2, w3, w0, w1);                                             \
	ROUNDS(i + 2, w2);                                                    \
	SCHEDULE(w3, w0, w1, w2);                                             \
	ROUNDS(i + 3, w3);                                                    \
} while (0)

#define LOAD(i) _mm_shuffle_epi8(                                             \
	_mm_loadu_si128((const __m128i *)(data + 16 * (i))), swap)

struct words {
	/* The first word on top, e in the top word. */
	__m128i abcd, e;
};

static __always_inline struct words words_in(const u32 *h)
{
	return (struct words){
		_mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)h), 0x1b),
		_mm_slli_si128(_mm_cvtsi32_si128((int)h[4]), 12),
	};
}

static __always_inline void run(struct words *s, const u8 *data, size_t blocks, __m128i swap)
{
	__m128i abcd = s->abcd, e = s->e;

	for (; blocks; blocks--, data += SHA1_BLOCK) {
		const __m128i abcd_in = abcd, e_in = e;
		__m128i w0 = LOAD(0), w1 = LOAD(1), w2 = LOAD(2), w3 = LOAD(3);

		ROUNDS(0, w0);
		ROUNDS(1, w1);
		ROUNDS(2, w2);
		ROUNDS(3, w3);
		FOUR(4);
		FOUR(8);
		FOUR(12);
		FOUR(16);
		e = _mm_sha1nexte_epu32(e, e_in);
		abcd = _mm_add_epi32(abcd, abcd_in);
	}
	*s = (struct words){ abcd, e };
}

static __always_inline __m128i swap_bytes(void)
{
	return _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
}

void sha1_blocks_sha_ni(void *state, const u8 *data, size_t blocks)
{
	u32 *const h = state;
	struct words s;

	assert_fpu_section();
	s = words_in(h);
	run(&s, data, blocks, swap_bytes());
	_mm_storeu_si128((__m128i *)h, _mm_shuffle_epi32(s.abcd, 0x1b));
	h[4] = (u32)_mm_extract_epi32(s.e, 3);
}

void sha1_end_sha_ni(const void *state, const u8 *data, size_t len, u64 bytes, u8 *out)
{
	const __m128i swap = swap_bytes();
	u8 last[2 * MD_MAX_BLOCK] __aligned(64);
	const size_t rest = len % SHA1_BLOCK;
	struct words s;
	size_t more;

	assert_fpu_section();
	/* Before the rounds, so that it is made beside them. */
	more = md_pad(&sha1_md, last, data + len - rest, rest, bytes);
	s = words_in(state);
	run(&s, data, len / SHA1_BLOCK, swap);
	run(&s, last, more, swap);
	/* From the first on top to the first byte first. */
	_mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(s.abcd, swap));
	put_be32((u32)_mm_extract_epi32(s.e, 3), out + 16);
	md_wipe(&sha1_md, last, more);
}
