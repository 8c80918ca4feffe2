/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-256 with the SHA instructions.
 *
 * SHA256RNDS2 runs two rounds in four cycles, and each pair of rounds depends on the previous pair,
 * so a block takes 128 cycles. Everything else costs nothing as long as it stays off this chain.
 */
#include "../merkle_sha_ni.h"
#include "sha2.h"

/* KW() adds the round constants to the words 4i to 4i + 3 in @w, and ROUNDS() runs their rounds. */
#define KW(i, w) _mm_add_epi32(w, _mm_load_si128((const __m128i *)(sha256_k + 4 * (i))))
#define ROUNDS(i, w) do {                                                     \
	__m128i kw = KW(i, w);                                                \
	cdgh = _mm_sha256rnds2_epu32(cdgh, abef, kw);                         \
	kw = _mm_shuffle_epi32(kw, 0x0e);                                     \
	abef = _mm_sha256rnds2_epu32(abef, cdgh, kw);                         \
} while (0)

#define SCHEDULE(w0, w1, w2, w3)                                              \
	w0 = _mm_sha256msg2_epu32(                                            \
		_mm_add_epi32(_mm_sha256msg1_epu32(w0, w1),                   \
			      _mm_alignr_epi8(w3, w2, 4)), w3)

struct words {
	/*
	 * The state in the layout that the instructions use: a b e f and c d g h, with the first
	 * word in the highest position.
	 */
	__m128i abef, cdgh;
};

static __always_inline struct words words_in(const __m128i *h)
{
	const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(h), 0xb1);
	const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(h + 1), 0x1b);

	return (struct words){
		_mm_alignr_epi8(cdab, efgh, 8), _mm_blend_epi16(efgh, cdab, 0xf0),
	};
}

/* Puts the words into memory order; the byte order within each word stays the same. */
static __always_inline void words_out(const struct words *s, __m128i *abcd, __m128i *efgh)
{
	const __m128i feba = _mm_shuffle_epi32(s->abef, 0x1b);
	const __m128i dchg = _mm_shuffle_epi32(s->cdgh, 0xb1);

	*abcd = _mm_blend_epi16(feba, dchg, 0xf0);
	*efgh = _mm_alignr_epi8(dchg, feba, 8);
}

static __always_inline void run(struct words *s, const u8 *data, size_t blocks,
				     __m128i swap)
{
	__m128i abef = s->abef, cdgh = s->cdgh;

	for (; blocks; blocks--, data += SHA256_BLOCK) {
		const __m128i abef_in = abef, cdgh_in = cdgh;
		FIRST_SIXTEEN;

		FOUR(4);
		FOUR(8);
		FOUR(12);
		abef = _mm_add_epi32(abef, abef_in);
		cdgh = _mm_add_epi32(cdgh, cdgh_in);
	}
	*s = (struct words){ abef, cdgh };
}

static __always_inline __m128i swap_bytes(void)
{
	return _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
}

static __always_inline void words_store(struct words s, void *h)
{
	__m128i abcd, efgh;

	words_out(&s, &abcd, &efgh);
	_mm_storeu_si128(h, abcd);
	_mm_storeu_si128((__m128i *)h + 1, efgh);
}

void sha256_blocks_sha_ni(void *state, const u8 *data, size_t blocks)
{
	struct words s;

	assert_fpu_section();
	s = words_in(state);
	run(&s, data, blocks, swap_bytes());
	words_store(s, state);
}

static __always_inline void put_digest(const struct words *s, u8 *out, __m128i swap)
{
	__m128i abcd, efgh;

	words_out(s, &abcd, &efgh);
	_mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(abcd, swap));
	_mm_storeu_si128((__m128i *)(out + 16), _mm_shuffle_epi8(efgh, swap));
}

MD_END_SHA_NI(sha256)

#define MD sha256_md
#define MD_NAME(name) sha256_##name##_sha_ni
#define WORDS(x, y) ((struct words){ x, y })
#define FIRST(s) (s).abef
#define SECOND(s) (s).cdgh
#define ROUNDS_OF_TWO(i, w) do {                                              \
	const __m128i kw0 = KW(i, w##0), kw1 = KW(i, w##1);                   \
										      \
	y0 = _mm_sha256rnds2_epu32(y0, x0, kw0);                              \
	y1 = _mm_sha256rnds2_epu32(y1, x1, kw1);                              \
	x0 = _mm_sha256rnds2_epu32(x0, y0, _mm_shuffle_epi32(kw0, 0x0e));     \
	x1 = _mm_sha256rnds2_epu32(x1, y1, _mm_shuffle_epi32(kw1, 0x0e));     \
} while (0)
#define LAST_ROUNDS(FOUR) do {                                                \
	FOUR(4);                                                              \
	FOUR(8);                                                              \
	FOUR(12);                                                             \
} while (0)
#define ADD_STATE(x, y, x_in, y_in) do {                                      \
	x = _mm_add_epi32(x, x_in);                                           \
	y = _mm_add_epi32(y, y_in);                                           \
} while (0)

#include "../merkle_sha_ni_two.h"
