/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * ChaCha20 with vector registers: the template that every SIMD tier includes once.
 *
 * The including file includes one of ../simd/vec_*.h first and defines:
 *
 *	CHACHA(name)	full name of an entry point of this tier
 *	SETS		number of column sets that are processed together: 1 or 2
 *	v_counts(n)	a vector in which each lane holds the word @n followed by zeros
 *	v_lanes(a, b, c, d)	turns rows into blocks: afterwards the four vectors hold, in memory
 *			order, block 0 (lane 0 of each row), block 1 (lane 1), and so on
 *	v_powers(key, len)	computes the powers of r that the tier uses to hash @len bytes
 *	TIER_FEW	declares that two_blocks() and eight_blocks() exist and take less time
 *			than rows of LANES blocks; see chacha.h
 *
 * and with two sets
 *
 *	V_VAR_x(i), V_VAR_y(i)	declare word i of a set
 *	V_ADD(a, b), V_XOR(a, b)	a += b, a ^= b, on 32-bit words
 *	V_ROL(a, n)	rotates each 32-bit word of a left by n
 *
 * Layout. Blocks are laid out either in rows or in columns. In rows, a vector holds one row of the
 * state for LANES blocks. The computation is a single chain of 20 * 12 dependent operations, so its
 * time is the latency of the chain. Rows are therefore used for few blocks. In columns, sixteen
 * vectors each hold one word of the state for 4 * LANES blocks. The four columns of the state are
 * then independent of each other, at the cost of a transposition at the end.
 *
 * On Zen 5, vector operations have a latency of two cycles and four of them start per cycle, so the
 * four chains of one set use only half of the slots. Two sets fill all 32 registers, so each
 * operation must overwrite one of its operands. Compilers do not arrange this by themselves, so the
 * tier uses inline assembly (measured on Zen 5, 16 blocks: 525 cycles; 32 blocks in two sets: 650,
 * or 800 with compiler-generated operations).
 *
 * An authenticated message also needs block 0, which is the key of Poly1305. It is computed in
 * general-purpose registers, between the vector operations for the other blocks (chacha_blocks.h).
 * If it were one of the blocks in the rows, the hash could not begin until all rows were computed.
 *
 * The blocks of a column vector are assigned to its lanes such that, after the transposition within
 * lanes, the vectors look like rows of LANES consecutive blocks.
 */

#include "chacha_blocks.h"

#ifdef TIER_FEW
#define TWO_BYTES 128
#else
#define TWO_BYTES 0
#define two_blocks(key, iv, more, dst) do { } while (0)
#define eight_blocks(key, iv, more, dst) rows_2(key, input_iv(iv), more, dst, NULL, NULL, 0)
#endif

/*
 * A separate function, so that register allocation does not depend on the caller. With clang, this
 * saves 60 to 100 cycles for one row of 128 bits.
 */
#define START(name)                                                           \
static noinline void name##_start(const struct chacha_key *key, const u8 *nonce, u8 *dst, \
				  const u8 *src, struct poly1305_key *mac, size_t hashed) \
{                                                                             \
	name(key, input_nonce(nonce), 1, dst, src, mac, hashed);              \
}
START(rows_1)
START(rows_2)
START(columns_1)

static noinline void set_1(const struct chacha_key *key, const u8 *iv, u32 more, u8 *dst,
			   const u8 *src)
{
	columns_1(key, input_iv(iv), more, dst, src, NULL, 0);
}

#if SETS == 2
static noinline void set_2(const struct chacha_key *key, const u8 *iv, u32 more, u8 *dst,
			   const u8 *src)
{
	columns_2(key, input_iv(iv), more, dst, src, NULL);
}

static noinline void set_2_start(const struct chacha_key *key, const u8 *nonce, u8 *dst,
				 const u8 *src, struct poly1305_key *mac)
{
	columns_2(key, input_nonce(nonce), 1, dst, src, mac);
}

/* Two sets leave no registers free for the powers, which are therefore computed afterwards. */
static noinline void powers(struct poly1305_key *mac, size_t hashed)
{
	v_powers(mac, hashed);
}

static __always_inline void columns_2_start(const struct chacha_key *key, const u8 *nonce, u8 *dst,
					    const u8 *src, struct poly1305_key *mac, size_t hashed)
{
	set_2_start(key, nonce, dst, src, mac);
	if (hashed)
		powers(mac, hashed);
}
#endif

#ifndef xor_bytes
/* XORs @len bytes of key stream, fewer than a vector holds, into the text. */
static __always_inline void xor_bytes(u8 *dst, const u8 *src, const u8 *with, size_t len)
{
	for (; len >= 8; len -= 8, dst += 8, src += 8, with += 8)
		put_le64(get_le64(src) ^ get_le64(with), dst);
	for (; len; len--)
		*dst++ = *src++ ^ *with++;
}
#endif

static __always_inline void xor_buffer(u8 *dst, const u8 *src, const u8 *with, size_t len)
{
	for (; len >= VBYTES; len -= VBYTES) {
		v_store(dst, v_xor(v_load(src), v_load(with)));
		dst += VBYTES;
		src += VBYTES;
		with += VBYTES;
	}
	if (len)
		xor_bytes(dst, src, with, len);
}

/*
 * For a single block, general-purpose registers are nearly twice as fast as vectors in rows,
 * because their operations take one cycle instead of two (300 cycles compared with 540).
 */
static __always_inline void one_block(const struct chacha_key *key, u8 *dst, const u8 *src,
				      size_t len, const u8 *iv)
{
	u8 buffer[64] __aligned(64);

	chacha_block_generic(key, buffer, iv);
	xor_buffer(dst, src, buffer, len);
	wipe(buffer, sizeof(buffer));
}

/*
 * Number of key stream bytes written for a message of @len bytes. All of them are wiped afterwards.
 */
#define WRITTEN(len)                                                          \
	((len) > SET_BYTES ? SETS * SET_BYTES :                               \
	 (len) > 2 * ROW_BYTES ? SET_BYTES :                                  \
	 (len) > ROW_BYTES ? 2 * ROW_BYTES : ROW_BYTES)

/* Processes the end of a message: fewer bytes than a step of the main loop processes. */
static noinline void tail(const struct chacha_key *key, const u8 *iv, u32 more, u8 *dst,
			  const u8 *src, size_t len)
{
	u8 buffer[SETS * SET_BYTES] __aligned(64);

	if (len <= TWO_BYTES)
		two_blocks(key, iv, more, buffer);
	else if (len <= ROW_BYTES)
		rows_1(key, input_iv(iv), more, buffer, NULL, NULL, 0);
	else if (len <= 2 * ROW_BYTES)
		eight_blocks(key, iv, more, buffer);
#if SETS == 2
	else if (len > SET_BYTES)
		set_2(key, iv, more, buffer, NULL);
#endif
	else
		set_1(key, iv, more, buffer, NULL);
	xor_buffer(dst, src, buffer, len);
	wipe(buffer, WRITTEN(len));
}

void CHACHA(crypt)(const struct chacha_key *key, u8 *dst, const u8 *src, size_t len,
		   const u8 iv[CHACHA_IV_SIZE])
{
	u32 more = 0;

	assert_fpu_section();
	if (len <= 64) {
		one_block(key, dst, src, len, iv);
		v_end();
		return;
	}
#define ALL_OF(bytes, f)                                                      \
	while (len >= (bytes)) {                                              \
		f(key, iv, more, dst, src);                                   \
		more += (bytes) / 64;                                         \
		dst += bytes;                                                 \
		src += bytes;                                                 \
		len -= bytes;                                                 \
	}
#if SETS == 2
	ALL_OF(2 * SET_BYTES, set_2)
	/*
	 * If more than one set of blocks remains, tail() computes two sets, which take little
	 * longer than one set followed by rows.
	 */
	if (len <= SET_BYTES)
#endif
	ALL_OF(SET_BYTES, set_1)
	if (len)
		tail(key, iv, more, dst, src, len);
	v_end();
}

static __always_inline void start(const struct chacha_key *key, struct poly1305_key *mac,
				  size_t hashed, u8 *dst, const u8 *src, size_t len,
				  const u8 *nonce)
{
	if (len <= ROW_BYTES)
		rows_1_start(key, nonce, dst, src, mac, hashed);
	else if (len <= 2 * ROW_BYTES)
		rows_2_start(key, nonce, dst, src, mac, hashed);
#if SETS == 2
	else if (len > SET_BYTES)
		columns_2_start(key, nonce, dst, src, mac, hashed);
#endif
	else
		columns_1_start(key, nonce, dst, src, mac, hashed);
}

void CHACHA(start)(const struct chacha_key *key, struct poly1305_key *mac, size_t hashed, u8 *dst,
		   const u8 *src, size_t len, const u8 nonce[CHACHA_NONCE_SIZE])
{
	u8 buffer[SETS * SET_BYTES] __aligned(64);

	assert_fpu_section();
	if (likely(len == WRITTEN(len))) {
		start(key, mac, hashed, dst, src, len, nonce);
	} else {
		start(key, mac, hashed, buffer, NULL, len, nonce);
		xor_buffer(dst, src, buffer, len);
		wipe(buffer, WRITTEN(len));
	}
	v_end();
}

void CHACHA(stream)(const struct chacha_key *key, struct poly1305_key *mac, size_t hashed, u8 *dst,
		    size_t len, const u8 nonce[CHACHA_NONCE_SIZE])
{
	assert_fpu_section();
	start(key, mac, hashed, dst, NULL, len, nonce);
	v_end();
}

void CHACHA(xor)(u8 *dst, const u8 *src, const u8 *with, size_t len)
{
	assert_fpu_section();
	xor_buffer(dst, src, with, len);
	v_end();
}

void CHACHA(wipe)(u8 *p, size_t len)
{
	assert_fpu_section();
	wipe(p, (len + 63) & ~(size_t)63);
	v_end();
}
