/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * ChaCha20 blocks in vector registers, laid out in rows or in columns. Part of chacha_simd.h, which
 * explains the layouts and what the including file defines.
 */
#include "chacha_scalar.h"

#include <kiln/fpu_assert.h>
#include <kiln/string.h>
#include <kiln/unaligned.h>

#include "../poly1305/poly1305_limbs.h"
#include "../simd/rotate.h"

#define LANES VBLOCKS
#define ROW_BLOCKS LANES		/* blocks that four vectors of rows hold */
#define SET_BLOCKS (4 * LANES)		/* blocks that sixteen vectors of columns hold */
#define ROW_BYTES (64 * ROW_BLOCKS)
#define SET_BYTES (64 * SET_BLOCKS)

static const u32 constants[4] __aligned(16) = CHACHA_CONSTANTS;

/*
 * Counter offsets of the blocks: rows hold one block per lane, columns one block per 32-bit word.
 */
static const u32 row_counters[16] __aligned(64) = {
	0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0
};
static const u32 set_counters[16] __aligned(64) = {
#define C(lane) 0 + (lane), LANES + (lane), 2 * LANES + (lane), 3 * LANES + (lane)
	C(0), C(1), C(2), C(3)
#undef C
};

/* Broadcasts the 16 bytes at @p to each lane. */
#define v_each(p) v_all(_mm_loadu_si128((const __m128i *)(p)))
#define V_TURN(a, imm) a = v_shuffle32(a, imm);

#ifndef V_ADD
#define V_VAR_x(i) vec_t x##i
#define V_ADD(a, b) a = v_add32(a, b);
#define V_XOR(a, b) a = v_xor(a, b);
#define V_ROL(a, n) a = v_rol32(a, n);
#endif

/* One step of a quarter round (RFC 8439, 2.1): a += b; d = (d ^ a) <<< n. */
#define STEP1(a, b, d, n) V_ADD(a, b) V_XOR(d, a) V_ROL(d, n)
#define STEP2(a, b, d, e, f, h, n)                                            \
	V_ADD(a, b) V_ADD(e, f) V_XOR(d, a) V_XOR(h, e) V_ROL(d, n) V_ROL(h, n)

#define EACH_16(F)                                                            \
	F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)                               \
	F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)

/*
 * Block 0, the key of Poly1305, is computed between the vector operations for the other blocks, in
 * general-purpose registers, which would otherwise be idle. Each of the first EARLY double rounds
 * of the vectors is interleaved with one double round of block 0, except for two, each of which
 * is interleaved with two double rounds of block 0. Block 0 is therefore ready when the vectors
 * have completed EARLY of their ten double rounds. While the vectors finish, the powers of r are
 * computed and the associated data is hashed.
 *
 * With a smaller EARLY, the last rounds of the vectors have little to overlap with. Their dependent
 * operations then fill the scheduler, so that the next message cannot begin. With 10, nothing
 * overlaps with the powers of r (Zen 5, 512-bit tier, 256 bytes sealed: 727 cycles with 5, 705 with
 * 6, 673 with 7, 663 with 8, 749 with 10). The two double rounds that are interleaved with two of
 * block 0 are kept apart. In a later measurement, after other changes, the same message took 635
 * cycles if they were the first two, and 570 if they were the third and the seventh.
 */
#define EARLY 8
#define TWO_BESIDE(i) ((i) % 4 == 2)
#define BESIDE(step)                                                          \
	if (mac) {                                                            \
		step;                                                         \
	}
#define BESIDE_1                                                              \
	BESIDE(CHACHA_COLUMNS;                                                \
	       if (TWO_BESIDE(i)) { CHACHA_DIAGONALS; CHACHA_COLUMNS; })
#define BESIDE_2 BESIDE(CHACHA_DIAGONALS)
#define BESIDE_KEY BESIDE(CHACHA_MAC_KEY(mac))
#define BESIDE_POWERS(hashed) BESIDE(if (hashed) v_powers(mac, hashed))

/* Macros for blocks in rows. @p is the prefix of the row variables. */
#define ROW_QUARTER(p)                                                        \
	STEP1(p##a, p##b, p##d, 16) STEP1(p##c, p##d, p##b, 12)               \
	STEP1(p##a, p##b, p##d, 8) STEP1(p##c, p##d, p##b, 7)
/*
 * Row b is ready last and needed first, so the other three rows are rotated instead. Their
 * rotations are not on the critical path.
 */
#define ROW_TURN(p) V_TURN(p##a, 0x93) V_TURN(p##d, 0x4e) V_TURN(p##c, 0x39)
#define ROW_TURN_BACK(p) V_TURN(p##a, 0x39) V_TURN(p##d, 0x4e) V_TURN(p##c, 0x93)

#define ROW_STATE(p, n)                                                       \
	const vec_t p##3 = v_add32(row3, v_add32(v_load(row_counters), v_counts(n))); \
	vec_t p##a = row0, p##b = row1, p##c = row2, p##d = p##3;
#define ROW_FINAL(p) V_ADD(p##a, row0) V_ADD(p##b, row1) V_ADD(p##c, row2) V_ADD(p##d, p##3)

#define ROWS                                                                  \
	const vec_t row0 = v_each(constants), row1 = v_each(key->word),       \
		    row2 = v_each(key->word + 4),                             \
		    row3 = v_all(in.row);

/* The last row of the state, in the forms that rows, columns and block 0 use. */
struct input {
	__m128i row;
	u32 counter;
	const u8 *nonce;
};

static __always_inline struct input input_iv(const u8 *iv)
{
	return (struct input){
		.row = _mm_loadu_si128((const __m128i *)iv), .counter = get_le32(iv),
		.nonce = iv + 4,
	};
}

/*
 * Sets the counter to 0. The row is put together in a vector register: a load of an IV that has
 * just been written in parts would wait until everything before it has retired.
 */
static __always_inline struct input input_nonce(const u8 *nonce)
{
	const __m128i low = _mm_loadl_epi64((const __m128i *)nonce);
	const __m128i high = _mm_cvtsi32_si128((int)get_le32(nonce + 8));

	return (struct input){
		.row = _mm_bslli_si128(_mm_unpacklo_epi64(low, high), 4), .nonce = nonce,
	};
}

/*
 * Macros for blocks stored by column. SET_STEP_2 runs one step on every column of two sets of
 * blocks, x and y.
 */
#define SET_STEP_2(a0, a1, a2, a3, b0, b1, b2, b3, d0, d1, d2, d3, n)         \
	STEP2(x##a0, x##b0, x##d0, x##a1, x##b1, x##d1, n)                    \
	STEP2(y##a0, y##b0, y##d0, y##a1, y##b1, y##d1, n)                    \
	STEP2(x##a2, x##b2, x##d2, x##a3, x##b3, x##d3, n)                    \
	STEP2(y##a2, y##b2, y##d2, y##a3, y##b3, y##d3, n)
/*
 * Runs all four steps of two columns. The other two columns follow separately, so that only half of
 * the sixteen words are in use at any time.
 */
#define PAIR(a0, a1, b0, b1, c0, c1, d0, d1)                                  \
	STEP2(x##a0, x##b0, x##d0, x##a1, x##b1, x##d1, 16)                   \
	STEP2(x##c0, x##d0, x##b0, x##c1, x##d1, x##b1, 12)                   \
	STEP2(x##a0, x##b0, x##d0, x##a1, x##b1, x##d1, 8)                    \
	STEP2(x##c0, x##d0, x##b0, x##c1, x##d1, x##b1, 7)
#define SET_ROUND_1(b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3)           \
	PAIR(0, 1, b0, b1, c0, c1, d0, d1)                                    \
	PAIR(2, 3, b2, b3, c2, c3, d2, d3)
#define SET_ROUND_2(b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3)           \
	SET_STEP_2(0, 1, 2, 3, b0, b1, b2, b3, d0, d1, d2, d3, 16)            \
	SET_STEP_2(c0, c1, c2, c3, d0, d1, d2, d3, b0, b1, b2, b3, 12)        \
	SET_STEP_2(0, 1, 2, 3, b0, b1, b2, b3, d0, d1, d2, d3, 8)             \
	SET_STEP_2(c0, c1, c2, c3, d0, d1, d2, d3, b0, b1, b2, b3, 7)
#define SET_ROUNDS(ROUND, beside, more)                                       \
	ROUND(4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)                       \
	beside                                                                \
	ROUND(5, 6, 7, 4, 10, 11, 8, 9, 15, 12, 13, 14)                       \
	more
/* Calls F(p, i, initial value) for each word i of a set of columns. */
#define SET_WORDS(F, p, n)                                                    \
	F(p, 0, v_all32(constants[0])) F(p, 1, v_all32(constants[1]))         \
	F(p, 2, v_all32(constants[2])) F(p, 3, v_all32(constants[3]))         \
	F(p, 4, v_all32(k[0])) F(p, 5, v_all32(k[1]))                         \
	F(p, 6, v_all32(k[2])) F(p, 7, v_all32(k[3]))                         \
	F(p, 8, v_all32(k[4])) F(p, 9, v_all32(k[5]))                         \
	F(p, 10, v_all32(k[6])) F(p, 11, v_all32(k[7]))                       \
	F(p, 12, v_add32(v_all32(counter + (n)), v_load(set_counters)))       \
	F(p, 13, v_all32(nonce[0])) F(p, 14, v_all32(nonce[1]))               \
	F(p, 15, v_all32(nonce[2]))
#define SET_WORD(p, i, x) V_VAR_##p(i) = x;
#define SET_FINAL_WORD(p, i, x) p##i = v_add32(p##i, x);
#define SET_STATE(p, n) SET_WORDS(SET_WORD, p, n)
#define SET_FINAL(p, n) SET_WORDS(SET_FINAL_WORD, p, n)

/*
 * Transposes 4 x 4 words in each lane. On entry each vector holds one word of the state for all
 * blocks. On return it holds one row of the state for LANES blocks.
 */
#define QUAD(a, b, c, d)                                                      \
	do {                                                                  \
		const vec_t l0 = v_lo32(a, b), h0 = v_hi32(a, b);             \
		const vec_t l1 = v_lo32(c, d), h1 = v_hi32(c, d);             \
									      \
		a = v_lo64(l0, l1);                                           \
		b = v_hi64(l0, l1);                                           \
		c = v_lo64(h0, h1);                                           \
		d = v_hi64(h0, h1);                                           \
	} while (0)

/* Wipes @bytes bytes, which must be a whole number of vectors. */
static __always_inline void wipe(u8 *p, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i += VBYTES)
		v_store(p + i, v_all32(0));
	__asm__ volatile("" : : "r"(p) : "memory");
}

/* Writes LANES blocks of key stream to @dst. If @src is not NULL, XORs them with @src. */
static __always_inline void put_blocks(u8 *dst, const u8 *src, vec_t a, vec_t b, vec_t c,
				       vec_t d)
{
	v_lanes(a, b, c, d);
	if (src) {
		a = v_xor(a, v_load(src));
		b = v_xor(b, v_load(src + VBYTES));
		c = v_xor(c, v_load(src + 2 * VBYTES));
		d = v_xor(d, v_load(src + 3 * VBYTES));
	}
	v_store(dst, a);
	v_store(dst + VBYTES, b);
	v_store(dst + 2 * VBYTES, c);
	v_store(dst + 3 * VBYTES, d);
}

/* Writes a set of columns to @dst. If @src is not NULL, XORs them with @src. */
#define SET_PUT(p, dst, src)                                                  \
	do {                                                                  \
		u8 *to = dst;                                                 \
		const u8 *from = src;                                         \
									      \
		QUAD(p##0, p##1, p##2, p##3);                                 \
		QUAD(p##4, p##5, p##6, p##7);                                 \
		QUAD(p##8, p##9, p##10, p##11);                               \
		QUAD(p##12, p##13, p##14, p##15);                             \
		put_blocks(to, from, p##0, p##4, p##8, p##12);                \
		put_blocks(to + ROW_BYTES, from ? from + ROW_BYTES : NULL,    \
			   p##1, p##5, p##9, p##13);                          \
		put_blocks(to + 2 * ROW_BYTES, from ? from + 2 * ROW_BYTES : NULL, \
			   p##2, p##6, p##10, p##14);                         \
		put_blocks(to + 3 * ROW_BYTES, from ? from + 3 * ROW_BYTES : NULL, \
			   p##3, p##7, p##11, p##15);                         \
	} while (0)

/*
 * Computes LANES blocks in rows, starting @more blocks after the counter in @in. If @mac is not
 * NULL, also computes the block for the counter in @in, takes the key of Poly1305 from it, and
 * computes the powers of r for @hashed bytes.
 */
static __always_inline void rows_1(const struct chacha_key *key, const struct input in, const u32 more,
				   u8 *dst, const u8 *src, struct poly1305_key *const mac,
				   size_t hashed)
{
	CHACHA_WORDS(key, in.counter, in.nonce);
	int i;
	ROWS
	ROW_STATE(x, more)

	for (i = 0; i < (mac ? EARLY : 10); i++) {
		ROW_QUARTER(x)
		ROW_TURN(x)
		BESIDE_1
		ROW_QUARTER(x)
		ROW_TURN_BACK(x)
		BESIDE_2
	}
	BESIDE_KEY
	for (; i < 10; i++) {
		ROW_QUARTER(x)
		ROW_TURN(x)
		ROW_QUARTER(x)
		ROW_TURN_BACK(x)
	}
	BESIDE_POWERS(hashed)
	ROW_FINAL(x)
	put_blocks(dst, src, xa, xb, xc, xd);
}

static __always_inline void rows_2(const struct chacha_key *key, const struct input in, const u32 more,
				   u8 *dst, const u8 *src, struct poly1305_key *const mac,
				   size_t hashed)
{
	CHACHA_WORDS(key, in.counter, in.nonce);
	int i;
	ROWS
	ROW_STATE(x, more)
	ROW_STATE(y, more + ROW_BLOCKS)

	for (i = 0; i < (mac ? EARLY : 10); i++) {
		ROW_QUARTER(x)
		ROW_QUARTER(y)
		ROW_TURN(x)
		ROW_TURN(y)
		BESIDE_1
		ROW_QUARTER(x)
		ROW_QUARTER(y)
		ROW_TURN_BACK(x)
		ROW_TURN_BACK(y)
		BESIDE_2
	}
	BESIDE_KEY
	for (; i < 10; i++) {
		ROW_QUARTER(x)
		ROW_QUARTER(y)
		ROW_TURN(x)
		ROW_TURN(y)
		ROW_QUARTER(x)
		ROW_QUARTER(y)
		ROW_TURN_BACK(x)
		ROW_TURN_BACK(y)
	}
	BESIDE_POWERS(hashed)
	ROW_FINAL(x)
	ROW_FINAL(y)
	put_blocks(dst, src, xa, xb, xc, xd);
	put_blocks(dst + ROW_BYTES, src ? src + ROW_BYTES : NULL, ya, yb, yc, yd);
}

static __always_inline void columns_1(const struct chacha_key *key, const struct input in, const u32 more,
				      u8 *dst, const u8 *src, struct poly1305_key *const mac,
				      size_t hashed)
{
	const u32 *k = key->word, *nonce = (const u32 *)in.nonce;
	const u32 counter = in.counter + more;
	CHACHA_WORDS(key, in.counter, in.nonce);
	int i;
	SET_STATE(x, 0)

	for (i = 0; i < (mac ? EARLY : 10); i++) {
		SET_ROUNDS(SET_ROUND_1, BESIDE_1, BESIDE_2)
	}
	BESIDE_KEY
	for (; i < 10; i++) {
		SET_ROUNDS(SET_ROUND_1, , )
	}
	BESIDE_POWERS(hashed)
	barrier();
	SET_FINAL(x, 0)
	SET_PUT(x, dst, src);
}

#if SETS == 2
static __always_inline void columns_2(const struct chacha_key *key, const struct input in, u32 more,
				      u8 *dst, const u8 *src, struct poly1305_key *const mac)
{
	const u32 *k = key->word, *nonce = (const u32 *)in.nonce;
	const u32 counter = in.counter + more;
	u8 kept[SET_BYTES] __aligned(64);
	CHACHA_WORDS(key, in.counter, in.nonce);
	int i;
	SET_STATE(x, 0)
	SET_STATE(y, SET_BLOCKS)

	for (i = 0; i < 10; i++) {
		SET_ROUNDS(SET_ROUND_2, BESIDE(CHACHA_COLUMNS), BESIDE_2)
	}
	BESIDE_KEY
	/*
	 * Spill the words of set y, which are reloaded later, to free registers for the initial
	 * words.
	 */
#define KEEP(i) v_store(kept + VBYTES * (i), y##i);
#define KEPT(i) vec_t z##i = v_load(kept + VBYTES * (i));
	EACH_16(KEEP)
	barrier();
	SET_FINAL(x, 0)
	SET_PUT(x, dst, src);
	barrier();
	{
		EACH_16(KEPT)

		wipe(kept, sizeof(kept));
		SET_FINAL(z, SET_BLOCKS)
		SET_PUT(z, dst + SET_BYTES, src ? src + SET_BYTES : NULL);
	}
}
#endif
