/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * ChaCha20-Poly1305 for messages of at most one block of text: the template of the SIMD tiers.
 *
 * Two blocks of key stream are needed: block 0, which is the Poly1305 key, and the block for the
 * text. A round takes 12 cycles in general-purpose registers and, on Zen 5, at least 24 in vector
 * registers. Block 0 is computed in general-purpose registers. In parallel, the first rounds of the
 * text's block are computed in vectors; its remaining rounds are computed in general-purpose
 * registers.
 *
 * The number of waiting instructions that the core can hold limits how far calls for independent
 * messages overlap. For this reason, 14 rounds of the text's block are computed in vectors on
 * Zen 5, although 10 would divide the work equally between vectors and general-purpose registers.
 * For the same reason, the code after the rounds has few instructions and keeps its data in
 * registers.
 *
 * The including file includes ../simd/vec_xmm.h and defines what ../chacha/chacha_blocks.h needs,
 * and
 *
 *	SHORT(name)	full name of an entry point of this tier
 *	BEGUN		number of double rounds of the text's block in vectors, 5 to 9
 *	TWICE		a mask with 10 - BEGUN bits set: bit i is 1 if double round i of the text's
 *			block is interleaved with two double rounds of block 0, and 0 if it is
 *			interleaved with one
 */
#include "../chacha/chacha_blocks.h"
#include "../poly1305/poly1305_words.h"
#include "../verdict.h"
#include "chachapoly.h"

/* The one-time key of Poly1305. */
struct one_time {
	u64 r0, r1, s0, s1;
};

/* Computes block 0, and the state of block 1 after BEGUN double rounds. */
static __always_inline struct one_time begin(const struct chacha_key *key, const u8 *nonce,
					     u32 state[16])
{
	const struct input in = input_nonce(nonce);
	struct poly1305_key mac;
	int i;
	CHACHA_WORDS(key, 0, nonce);
	ROWS
	ROW_STATE(x, 1)

	for (i = 0; i < BEGUN; i++) {
		ROW_QUARTER(x)
		ROW_TURN(x)
		CHACHA_COLUMNS;
		if (TWICE >> i & 1) {
			CHACHA_DIAGONALS;
			CHACHA_COLUMNS;
		}
		ROW_QUARTER(x)
		ROW_TURN_BACK(x)
		CHACHA_DIAGONALS;
	}
	v_store(state, xa);
	v_store(state + 4, xb);
	v_store(state + 8, xc);
	v_store(state + 12, xd);
	CHACHA_MAC_KEY(&mac);
	return (struct one_time){ mac.r[0], mac.r[1], mac.s[0], mac.s[1] };
}

static __always_inline struct poly1305_words hash_part(struct poly1305_words h, u64 m0, u64 m1,
						       const struct one_time *k)
{
	return poly1305_step(h, m0, m1, 1, k->r0, k->r1);
}

/* Hashes data and pads it with zeros to whole blocks. */
static __always_inline struct poly1305_words hash_padded(struct poly1305_words h, const u8 *data,
							 size_t len, const struct one_time *k)
{
	u64 m[2];

	h = poly1305_steps(h, data, len / POLY1305_BLOCK_SIZE, k->r0, k->r1);
	if (len % POLY1305_BLOCK_SIZE) {
		poly1305_load_part(m, data + (len & ~(size_t)15), len % 16);
		h = hash_part(h, m[0], m[1], k);
	}
	return h;
}

static __always_inline void hash_end(struct poly1305_words h, size_t aadlen, size_t len,
				     const struct one_time *k, u64 tag[2])
{
	h = hash_part(h, aadlen, len, k);
	poly1305_tag(poly1305_sum_of(h), k->s0, k->s1, tag);
}

/* Stores the first @n bytes of the two words @m, 0 < @n < 16, and clears the other bytes in @m. */
static __always_inline void store_part(u8 *p, u64 m[2], size_t n)
{
	if (n > 8) {
		m[1] &= ~0ull >> (128 - 8 * n);
		put_le64(m[0], p);
		put_le64(m[0] >> (8 * n - 64) | m[1] << (128 - 8 * n), p + n - 8);
		return;
	}
	m[1] = 0;
	m[0] &= ~0ull >> (64 - 8 * n);
	if (n == 8) {
		put_le64(m[0], p);
	} else if (n >= 4) {
		put_le32((u32)m[0], p);
		put_le32((u32)(m[0] >> (8 * n - 32)), p + n - 4);
	} else {
		p[0] = (u8)m[0];
		p[n / 2] = (u8)(m[0] >> (8 * (n / 2)));
		p[n - 1] = (u8)(m[0] >> (8 * n - 8));
	}
}

/*
 * Finishes block 1 and XORs it into the text, up to 64 bytes. If @hash is set, adds the resulting
 * text to the Poly1305 sum @h.
 */
static __always_inline struct poly1305_words finish(const struct chacha_key *key, const u8 *nonce,
						    const u32 state[16], u8 *dst, const u8 *src,
						    size_t len, const bool hash,
						    struct poly1305_words h,
						    const struct one_time *k)
{
	u64 m[2], k0, k1;
	int i;
	CHACHA_WORDS(key, 1, nonce);

	w0 = state[0], w1 = state[1], w2 = state[2], w3 = state[3];
	w4 = state[4], w5 = state[5], w6 = state[6], w7 = state[7];
	w8 = state[8], w9 = state[9], w10 = state[10], w11 = state[11];
	w12 = state[12], w13 = state[13], w14 = state[14], w15 = state[15];
	for (i = BEGUN; i < 10; i++) {
		CHACHA_COLUMNS;
		CHACHA_DIAGONALS;
	}
#define STREAM(a, b)                                                          \
	k0 = a;                                                               \
	k1 = b;
#define STREAM_0 STREAM(CHACHA_PAIR(w0 + wc[0], w1 + wc[1]), CHACHA_PAIR(w2 + wc[2], w3 + wc[3]))
#define STREAM_1 STREAM(CHACHA_PAIR(w4 + wk[0], w5 + wk[1]), CHACHA_PAIR(w6 + wk[2], w7 + wk[3]))
#define STREAM_2 STREAM(CHACHA_PAIR(w8 + wk[4], w9 + wk[5]), CHACHA_PAIR(w10 + wk[6], w11 + wk[7]))
#define STREAM_3 STREAM(CHACHA_PAIR(w12 + wcount, w13 + get_le32(wn)),        \
			CHACHA_PAIR(w14 + get_le32(wn + 4), w15 + get_le32(wn + 8)))
#define CRYPT(i)                                                              \
	m[0] = get_le64(src + 16 * (i)) ^ k0;                                 \
	m[1] = get_le64(src + 16 * (i) + 8) ^ k1;                             \
	put_le64(m[0], dst + 16 * (i));                                       \
	put_le64(m[1], dst + 16 * (i) + 8);                                   \
	if (hash)                                                             \
		h = hash_part(h, m[0], m[1], k);
	STREAM_0
	if (len >= 16) {
		CRYPT(0)
		if (len == 16)
			return h;
		STREAM_1
		if (len >= 32) {
			CRYPT(1)
			STREAM_2
			if (len >= 48) {
				CRYPT(2)
				STREAM_3
				if (len == 64) {
					CRYPT(3)
					return h;
				}
			}
		}
	}
	if (len % 16) {
		dst += len & ~(size_t)15;
		src += len & ~(size_t)15;
		poly1305_load_part(m, src, len % 16);
		m[0] ^= k0;
		m[1] ^= k1;
		store_part(dst, m, len % 16);
		if (hash)
			h = hash_part(h, m[0], m[1], k);
	}
	return h;
}

void SHORT(seal)(const struct chacha_key *key, u8 *dst, const u8 *src, size_t len, const u8 *aad,
		 size_t aadlen, const u8 *nonce, u8 *tag)
{
	u32 state[16] __aligned(16);
	struct poly1305_words h = { 0 };
	struct one_time k;
	u64 right[2];

	assert_fpu_section();
	k = begin(key, nonce, state);
	h = hash_padded(h, aad, aadlen, &k);
	h = finish(key, nonce, state, dst, src, len, true, h, &k);
	hash_end(h, aadlen, len, &k, right);
	put_le64(right[0], tag);
	put_le64(right[1], tag + 8);
	wipe((u8 *)state, sizeof(state));
}

bool SHORT(open)(const struct chacha_key *key, u8 *dst, const u8 *src, size_t len, const u8 *aad,
		 size_t aadlen, const u8 *nonce, const u8 *tag)
{
	u32 state[16] __aligned(16);
	struct poly1305_words h = { 0 };
	struct one_time k;
	u64 right[2];
	bool wrong;

	assert_fpu_section();
	k = begin(key, nonce, state);
	h = hash_padded(h, aad, aadlen, &k);
	h = hash_padded(h, src, len, &k);
	hash_end(h, aadlen, len, &k, right);
	wrong = tag_is_wrong((right[0] ^ get_le64(tag)) | (right[1] ^ get_le64(tag + 8)));
	if (wrong)
		memset(dst, 0, len);
	else
		finish(key, nonce, state, dst, src, len, false, h, &k);
	wipe((u8 *)state, sizeof(state));
	return wrong;
}
