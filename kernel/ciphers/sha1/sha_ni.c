/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-1 with the SHA instructions. Each block is processed by a chain of twenty SHA1RNDS4
 * instructions; each runs four rounds and depends on the previous one. All other instructions stay
 * off this chain.
 */
#include "../merkle_sha_ni.h"
#include "sha1.h"

/* Runs rounds 4i to 4i + 3 with the words @w. Adds e to the top word of @w first. */
#define ROUNDS(i, w) ROUNDS_OF(abcd, e, i, w)
#define ROUNDS_OF(abcd, e, i, w) do {                                         \
	const __m128i before = abcd;                                          \
										      \
	e = (i) ? _mm_sha1nexte_epu32(e, w) : _mm_add_epi32(e, w);            \
	abcd = _mm_sha1rnds4_epu32(abcd, e, (i) / 5);                         \
	e = before;                                                           \
} while (0)

#define SCHEDULE(w0, w1, w2, w3)                                              \
	w0 = _mm_sha1msg2_epu32(_mm_xor_si128(_mm_sha1msg1_epu32(w0, w1), w2), w3)

struct words {
	/*
	 * The vector abcd holds a in its top word and d in its lowest; the vector e holds e in its
	 * top word.
	 */
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
		FIRST_SIXTEEN;

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

static __always_inline void words_store(struct words s, u32 *h)
{
	_mm_storeu_si128((__m128i *)h, _mm_shuffle_epi32(s.abcd, 0x1b));
	h[4] = (u32)_mm_extract_epi32(s.e, 3);
}

void sha1_blocks_sha_ni(void *state, const u8 *data, size_t blocks)
{
	struct words s;

	assert_fpu_section();
	s = words_in(state);
	run(&s, data, blocks, swap_bytes());
	words_store(s, state);
}

/* Writes the digest in big-endian order. In the vectors, the first word is the highest. */
static __always_inline void put_digest(const struct words *s, u8 *out, __m128i swap)
{
	_mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(s->abcd, swap));
	put_be32((u32)_mm_extract_epi32(s->e, 3), out + 16);
}

MD_END_SHA_NI(sha1)

#define MD sha1_md
#define MD_NAME(name) sha1_##name##_sha_ni
#define WORDS(x, y) ((struct words){ x, y })
#define FIRST(s) (s).abcd
#define SECOND(s) (s).e
#define ROUNDS_OF_TWO(i, w) do {                                              \
	ROUNDS_OF(x0, y0, i, w##0);                                           \
	ROUNDS_OF(x1, y1, i, w##1);                                           \
} while (0)
#define LAST_ROUNDS(FOUR) do {                                                \
	FOUR(4);                                                              \
	FOUR(8);                                                              \
	FOUR(12);                                                             \
	FOUR(16);                                                             \
} while (0)
#define ADD_STATE(x, y, x_in, y_in) do {                                      \
	y = _mm_sha1nexte_epu32(y, y_in);                                     \
	x = _mm_add_epi32(x, x_in);                                           \
} while (0)

#include "../merkle_sha_ni_two.h"
