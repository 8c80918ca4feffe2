/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-256 with the SHA instructions.
 *
 * SHA256RNDS2 does two rounds in four cycles, each pair of them after the one before: 128
 * cycles a block, and nothing beside them costs anything as long as it stays off that chain.
 */
#include <immintrin.h>

#include <kiln/fpu.h>

#include "sha2.h"

/* Rounds 4i to 4i + 3 with the words w[4i..]. */
#define ROUNDS(i, w) do {                                                     \
	__m128i kw = _mm_add_epi32(w, _mm_load_si128((const __m128i *)        \
						     (sha256_k + 4 * (i))));  \
	cdgh = _mm_sha256rnds2_epu32(cdgh, abef, kw);                         \
	kw = _mm_shuffle_epi32(kw, 0x0e);                                     \
	abef = _mm_sha256rnds2_epu32(abef, cdgh, kw);                         \
} while (0)

/* From w0, the words t - 16 ... t - 13, and those after them: words t ... t + 3, in w0. */
#define SCHEDULE(w0, w1, w2, w3)                                              \
	w0 = _mm_sha256msg2_epu32(                                            \
		_mm_add_epi32(_mm_sha256msg1_epu32(w0, w1),                   \
			      _mm_alignr_epi8(w3, w2, 4)), w3)

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

void sha256_blocks_sha_ni(void *state, const u8 *data, size_t blocks)
{
	const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
	__m128i *const h = state;
	__m128i abef, cdgh, t;

	assert_fpu_section();
	/* The instructions want the words a b e f and c d g h, the first on top. */
	t = _mm_shuffle_epi32(_mm_loadu_si128(h), 0xb1);		/* cdab */
	cdgh = _mm_shuffle_epi32(_mm_loadu_si128(h + 1), 0x1b);		/* efgh */
	abef = _mm_alignr_epi8(t, cdgh, 8);
	cdgh = _mm_blend_epi16(cdgh, t, 0xf0);

	do {
		const __m128i abef_in = abef, cdgh_in = cdgh;
		__m128i w0 = LOAD(0), w1 = LOAD(1), w2 = LOAD(2), w3 = LOAD(3);

		ROUNDS(0, w0);
		ROUNDS(1, w1);
		ROUNDS(2, w2);
		ROUNDS(3, w3);
		FOUR(4);
		FOUR(8);
		FOUR(12);
		abef = _mm_add_epi32(abef, abef_in);
		cdgh = _mm_add_epi32(cdgh, cdgh_in);
		data += SHA256_BLOCK;
	} while (--blocks);

	t = _mm_shuffle_epi32(abef, 0x1b);				/* feba */
	cdgh = _mm_shuffle_epi32(cdgh, 0xb1);				/* dchg */
	_mm_storeu_si128(h, _mm_blend_epi16(t, cdgh, 0xf0));
	_mm_storeu_si128(h + 1, _mm_alignr_epi8(cdgh, t, 8));
}
