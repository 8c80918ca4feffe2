/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-256 with vectors and BMI2, for CPUs without the SHA instructions. Rounds run in
 * general-purpose registers. The message schedules of two blocks are computed at once with vector
 * instructions, between the rounds of the first block. The rounds of the second block read their
 * words from memory. The including file includes simd/two_lanes.h first and defines:
 *
 *	MD_NAME(name)	full name of an entry point
 *	v_sigma0(v), v_sigma1(v)	FIPS 180-4, 4.1.2. In the argument of v_sigma1(), each 64-bit
 *				word holds the same message word twice; of the result, only the
 *				lower half of each 64-bit word is used.
 */
#include <kiln/fpu_assert.h>

#include "../merkle_simd.h"
#include "sha2.h"

#define MD sha256_md
#define STEPS 16

typedef u32 word_t;

#define SIGMA0(a) (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22))
#define SIGMA1(e) (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25))

#include "rounds.h"

/* Message words plus round constants, in groups of four, for both lanes. */
struct schedule {
	u32 kw[STEPS][LANES][4];
};

/*
 * Computes words 4n to 4n + 3 from the sixteen words before them. Words 4n + 2 and 4n + 3 depend on
 * words 4n and 4n + 1.
 */
static __always_inline vec_t next_four(vec_t x0, vec_t x1, vec_t x2, vec_t x3)
{
	const vec_t to_first = v_bytes(-1, 0x0b0a090803020100);
	const vec_t to_last = v_bytes(0x0b0a090803020100, -1);
	vec_t x = _mm256_add_epi32(_mm256_add_epi32(x0, _mm256_alignr_epi8(x3, x2, 4)),
				   v_sigma0(_mm256_alignr_epi8(x1, x0, 4)));

	/* Prevents the compiler from reordering the additions. */
	__asm__("" : "+x"(x));
	x = _mm256_add_epi32(x, _mm256_shuffle_epi8(v_sigma1(_mm256_shuffle_epi32(x3, 0xfa)),
						    to_first));
	return _mm256_add_epi32(x, _mm256_shuffle_epi8(v_sigma1(_mm256_shuffle_epi32(x, 0x50)),
						       to_last));
}

#define STORE(n, x)                                                           \
	_mm256_store_si256((__m256i *)s->kw[n],                               \
			   _mm256_add_epi32(x, v_both(sha256_k + 4 * (n))))
#define SCHEDULE(n, x0, x1, x2, x3) do {                                      \
	x0 = next_four(x0, x1, x2, x3);                                       \
	STORE(n, x0);                                                         \
} while (0)

#define FOUR(a, b, c, d, e, f, g, h, n) do {                                  \
	ROUND(a, b, c, d, e, f, g, h, s->kw[n][lane][0]);                     \
	ROUND(h, a, b, c, d, e, f, g, s->kw[n][lane][1]);                     \
	ROUND(g, h, a, b, c, d, e, f, s->kw[n][lane][2]);                     \
	ROUND(f, g, h, a, b, c, d, e, s->kw[n][lane][3]);                     \
} while (0)
#define EIGHT(n) do {                                                         \
	FOUR(a, b, c, d, e, f, g, h, n);                                      \
	FOUR(e, f, g, h, a, b, c, d, (n) + 1);                                \
} while (0)

/* Runs the rounds of the first block and computes the message schedules of both blocks. */
static __always_inline void first_block(u32 *st, struct schedule *s, const u8 *data,
					const size_t stride)
{
	vec_t x0 = v_swap32(v_load_lanes(data, stride));
	vec_t x1 = v_swap32(v_load_lanes(data + 16, stride));
	vec_t x2 = v_swap32(v_load_lanes(data + 32, stride));
	vec_t x3 = v_swap32(v_load_lanes(data + 48, stride));
	const int lane = 0;
	int n;

	STATE_IN;
	STORE(0, x0);
	STORE(1, x1);
	STORE(2, x2);
	STORE(3, x3);
	for (n = 0; n < 12; n += 4) {
		SCHEDULE(n + 4, x0, x1, x2, x3);
		FOUR(a, b, c, d, e, f, g, h, n);
		SCHEDULE(n + 5, x1, x2, x3, x0);
		FOUR(e, f, g, h, a, b, c, d, n + 1);
		SCHEDULE(n + 6, x2, x3, x0, x1);
		FOUR(a, b, c, d, e, f, g, h, n + 2);
		SCHEDULE(n + 7, x3, x0, x1, x2);
		FOUR(e, f, g, h, a, b, c, d, n + 3);
	}
	EIGHT(n);
	EIGHT(n + 2);
	STATE_OUT;
}

static __always_inline void other_block(u32 *st, const struct schedule *s, const int lane)
{
	int n;

	STATE_IN;
	for (n = 0; n < STEPS; n += 4) {
		EIGHT(n);
		EIGHT(n + 2);
	}
	STATE_OUT;
}

#include "two_blocks.h"
