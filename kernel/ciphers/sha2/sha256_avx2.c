/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * SHA-256 with AVX2 and BMI2, for CPUs without the SHA instructions: rounds in general
 * registers, message schedule in vectors, for two blocks at a time. The second one finds its
 * words in memory.
 */
#include <kiln/fpu_assert.h>

#include "../merkle_simd.h"
#include "sha2.h"

#define LANES 2
#define STEPS 16

typedef u32 word_t;

#define SIGMA0(a) (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22))
#define SIGMA1(e) (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25))

#include "rounds.h"

typedef __m256i vec_t;

/* Words plus constants, by fours, of both lanes. */
struct schedule {
	u32 kw[STEPS][LANES][4];
};

static __always_inline vec_t both(__m128i v)
{
	return _mm256_broadcastsi128_si256(v);
}

static __always_inline vec_t load_lanes(const u8 *p, size_t stride)
{
	const vec_t swap = both(_mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203));

	return _mm256_shuffle_epi8(_mm256_inserti128_si256(
		_mm256_castsi128_si256(md_load16(p)), md_load16(p + stride), 1), swap);
}

#define XOR(a, b) _mm256_xor_si256(a, b)
#define ROR(v, n) XOR(_mm256_srli_epi32(v, n), _mm256_slli_epi32(v, 32 - (n)))

/* FIPS 180-4, 4.1.2 */
static __always_inline vec_t sigma0(vec_t v)
{
	return XOR(XOR(ROR(v, 7), ROR(v, 18)), _mm256_srli_epi32(v, 3));
}

/* Of words that are in both halves of 64 bits, so that shifting is rotating; to the lower. */
static __always_inline vec_t sigma1(vec_t v)
{
	return XOR(XOR(_mm256_srli_epi64(v, 17), _mm256_srli_epi64(v, 19)),
		   _mm256_srli_epi32(v, 10));
}

/* Words 4n to 4n + 3 from the sixteen before them: the last two of them need the first two. */
static __always_inline vec_t next_four(vec_t x0, vec_t x1, vec_t x2, vec_t x3)
{
	const vec_t to_first = both(_mm_set_epi64x(-1, 0x0b0a090803020100));
	const vec_t to_last = both(_mm_set_epi64x(0x0b0a090803020100, -1));
	vec_t x = _mm256_add_epi32(_mm256_add_epi32(x0, _mm256_alignr_epi8(x3, x2, 4)),
				   sigma0(_mm256_alignr_epi8(x1, x0, 4)));

	__asm__("" : "+x"(x));
	x = _mm256_add_epi32(x, _mm256_shuffle_epi8(sigma1(_mm256_shuffle_epi32(x3, 0xfa)),
						    to_first));
	return _mm256_add_epi32(x, _mm256_shuffle_epi8(sigma1(_mm256_shuffle_epi32(x, 0x50)),
						       to_last));
}

#define STORE(n, x)                                                           \
	_mm256_store_si256((__m256i *)s->kw[n],                               \
			   _mm256_add_epi32(x, both(md_load16((const u8 *)    \
							      (sha256_k + 4 * (n))))))
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

/* Rounds of the first block, with the schedule of both. */
static __always_inline void first_block(u32 *st, struct schedule *s, const u8 *data,
					const size_t stride)
{
	vec_t x0 = load_lanes(data, stride), x1 = load_lanes(data + 16, stride);
	vec_t x2 = load_lanes(data + 32, stride), x3 = load_lanes(data + 48, stride);
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

static __always_inline void run(u32 *st, struct schedule *s, const u8 *data, size_t blocks,
				const u8 *last, size_t more)
{
	size_t i;

	for (i = 0; i + LANES <= blocks + more; i += LANES) {
		const u8 *const one = block_at(SHA256_BLOCK, data, blocks, last, i);
		const u8 *const two = block_at(SHA256_BLOCK, data, blocks, last, i + 1);

		first_block(st, s, one, (size_t)(two - one));
		other_block(st, s, 1);
	}
	/* A block alone is in both lanes. */
	if (i < blocks + more)
		first_block(st, s, block_at(SHA256_BLOCK, data, blocks, last, i), 0);
}

/* HMAC's states are as good as its key. */
static __always_inline void wipe(struct schedule *s, u32 st[8])
{
	int n;

	for (n = 0; n < STEPS; n++)
		_mm256_store_si256((__m256i *)s->kw[n], _mm256_setzero_si256());
	_mm256_storeu_si256((__m256i *)st, _mm256_setzero_si256());
	__asm__ volatile("" : : "r"(s), "r"(st) : "memory");
}

void sha256_blocks_avx2(void *state, const u8 *data, size_t blocks)
{
	struct schedule s __aligned(64);
	u32 st[8];

	assert_fpu_section();
	__builtin_memcpy(st, state, sizeof(st));
	run(st, &s, data, blocks, data, 0);
	__builtin_memcpy(state, st, sizeof(st));
	wipe(&s, st);
	_mm256_zeroupper();
}

void sha256_end_avx2(const void *state, const u8 *data, size_t len, u64 bytes, u8 *out)
{
	struct schedule s __aligned(64);
	u8 last[2 * MD_MAX_BLOCK] __aligned(64);
	const size_t rest = len % SHA256_BLOCK;
	size_t more;
	u32 st[8];
	u64 h[8];

	assert_fpu_section();
	more = md_pad(&sha256_md, last, data + len - rest, rest, bytes);
	__builtin_memcpy(st, state, sizeof(st));
	run(st, &s, data, len / SHA256_BLOCK, last, more);
	__builtin_memcpy(h, st, sizeof(st));
	md_put_digest(&sha256_md, h, out);
	md_zero(h, sizeof(st));
	md_wipe(&sha256_md, last, more);
	wipe(&s, st);
	_mm256_zeroupper();
}
