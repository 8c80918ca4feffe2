// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Calls a tree's assembly functions in the same way as the tree's own C code does. Each calling
 * convention has its own loop. All calls of a loop are made in one FPU section. tree/primitives
 * lists each function's convention. crates/kiln-tree/src/primitive.rs contains the conventions in
 * the same order.
 *
 * IVs and initial states are copied for all messages at once, long before they are read. If each of
 * them were copied directly before the call that reads it, every measurement would include a
 * store-forwarding stall.
 */
#include "service.h"

void kiln_glue_section_begin(void);
void kiln_glue_section_end(void);

enum call {
	CALL_BLOCKS, CALL_LEN, CALL_LEN_IV, CALL_CBC_BLOCKS, CALL_STREAM_BLOCKS,
	CALL_IV_BLOCKS, CALL_XTS, CALL_XTS_AESNI, CALL_CTR_BY8, CALL_XCTR_BY8, CALL_GCM,
	CALL_AEGIS, CALL_CHACHA, CALL_COMPRESS, CALL_CRC_LAST, CALL_CRC_FIRST, CALL_GHASH,
	CALL_POLYVAL, CALL_NH, CALL_POLY1305, CALL_X25519, CALL_AES_BLOCK, CALL_AES_SET_KEY,
	CALL_AES_EXPANDKEY, CALL_CTR64, CALL_XCTR, CALL_HCHACHA, CALL_FINUP2X, CALL_CRC_TABLE,
	CALL_GF128_MUL, CALL_GHASH_BLOCKS, CALL_POLYVAL_BLOCKS,
};

uint64_t kiln_image_series(struct kiln_primitive *p);

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

#define ALIGNED __attribute__((aligned(64)))
#define TAG 16

static inline u32 be32(const u8 *p)
{
	u32 x;

	__builtin_memcpy(&x, p, 4);
	return __builtin_bswap32(x);
}

static inline u64 load64(const u8 *p)
{
	u64 x;

	__builtin_memcpy(&x, p, 8);
	return x;
}

static inline void store64(u8 *p, u64 x)
{
	__builtin_memcpy(p, &x, 8);
}

static inline void store128(u8 *to, const u8 *from)
{
	store64(to, load64(from));
	store64(to + 8, load64(from + 8));
}

/*
 * Defines a function that processes the message at @src, of p->m.len bytes, and stores the result
 * at @dst. It may modify the IV.
 */
#define ONE(name) \
	static inline __attribute__((always_inline)) void \
	one_##name(const struct kiln_primitive *p, const u8 *src, u8 *dst, u8 *iv, u8 *state)

/*
 * The arguments are ctx, dst and src. Some functions also take a number, which is either a flag or
 * the block count. If a function processes several blocks per call, a companion function processes
 * the remaining blocks one by one.
 */
ONE(blocks)
{
	void (*const fn)(void *ctx, u8 *dst, const u8 *src, u64 extra) = (void *)p->fn[0];
	void (*const rest)(void *ctx, u8 *dst, const u8 *src, u64 extra) = (void *)p->fn[1];
	u64 at;

	for (at = 0; at + p->chunk <= p->m.len; at += p->chunk)
		fn(p->key, dst + at, src + at, p->extra);
	for (; at < p->m.len; at += p->block)
		rest(p->key, dst + at, src + at, p->extra);
}

ONE(len)
{
	void (*const fn)(void *ctx, u8 *dst, const u8 *src, u32 len) = (void *)p->fn[0];

	fn(p->key, dst, src, (u32)p->m.len);
}

ONE(len_iv)
{
	void (*const fn)(void *ctx, u8 *dst, const u8 *src, u32 len, u8 *iv) =
		(void *)p->fn[0];

	fn(p->key, dst, src, (u32)p->m.len, iv);
}

/*
 * The function itself chains the blocks of a chunk. The fourth argument of the function is @extra.
 */
ONE(cbc_blocks)
{
	void (*const fn)(void *ctx, u8 *dst, const u8 *src, u64 extra) = (void *)p->fn[0];
	const u64 block = p->block;
	const u8 *before = iv;
	u64 at;

	for (at = 0; at < p->m.len; at += p->chunk) {
		fn(p->key, dst + at, src + at, p->extra);
		store64(dst + at, load64(dst + at) ^ load64(before));
		if (block == 16)
			store64(dst + at + 8, load64(dst + at + 8) ^ load64(before + 8));
		before = src + at + p->chunk - block;
	}
}

ONE(stream_blocks)
{
	void (*const fn)(void *ctx, u8 *dst, const u8 *src, u8 *stream, u8 *iv) =
		(void *)p->fn[0];
	u8 stream[64 * 16] ALIGNED;
	u64 at;

	for (at = 0; at < p->m.len; at += p->chunk)
		fn(p->key, dst + at, src + at, stream, iv);
}

ONE(iv_blocks)
{
	void (*const fn)(void *ctx, u8 *dst, const u8 *src, u8 *iv) = (void *)p->fn[0];
	u64 at;

	for (at = 0; at < p->m.len; at += p->chunk)
		fn(p->key, dst + at, src + at, iv);
}

ONE(xts)
{
	void (*const fn)(void *ctx, const u8 *src, u8 *dst, u32 len, u8 *tweak) =
		(void *)p->fn[0];
	void (*const begin)(void *ctx, u8 *tweak) = (void *)p->fn[1];

	begin(p->key2, iv);
	fn(p->key, src, dst, (u32)p->m.len, iv);
}

ONE(xts_aesni)
{
	void (*const fn)(void *ctx, u8 *dst, const u8 *src, u32 len, u8 *tweak) =
		(void *)p->fn[0];
	void (*const begin)(void *ctx, u8 *dst, const u8 *src) = (void *)p->fn[1];

	begin(p->key2, iv, iv);
	fn(p->key, dst, src, (u32)p->m.len, iv);
}

ONE(ctr_by8)
{
	void (*const fn)(const u8 *src, u8 *iv, void *ctx, u8 *dst, u32 len) =
		(void *)p->fn[0];

	fn(src, iv, p->key, dst, (u32)p->m.len);
}

ONE(xctr_by8)
{
	void (*const fn)(const u8 *src, u8 *iv, void *ctx, u8 *dst, u32 len, u32 at) =
		(void *)p->fn[0];

	fn(src, iv, p->key, dst, (u32)p->m.len, 0);
}

/*
 * The code assumes that the low half of the counter does not overflow, because IVs are random and
 * messages are short.
 */
ONE(ctr64)
{
	void (*const fn)(void *ctx, const u8 *src, u8 *dst, int len, const u64 *ctr) =
		(void *)p->fn[0];
	u64 ctr[2] = { __builtin_bswap64(load64(iv + 8)), __builtin_bswap64(load64(iv)) };

	fn(p->key, src, dst, (int)p->m.len, ctr);
}

ONE(xctr)
{
	void (*const fn)(void *ctx, const u8 *src, u8 *dst, int len, const u8 *iv, u64 ctr) =
		(void *)p->fn[0];

	fn(p->key, src, dst, (int)p->m.len, iv, 1);
}

/* Processes one block. The extra argument is the number of rounds. */
ONE(aes_block)
{
	void (*const fn)(void *round_keys, int rounds, u8 *dst, const u8 *src) =
		(void *)p->fn[0];
	u64 at;

	for (at = 0; at < p->m.len; at += 16)
		fn(p->key, (int)p->extra, dst + at, src + at);
}

/* The message is the key. The result is the structure that holds the expanded key. */
ONE(aes_set_key)
{
	void (*const fn)(u8 *ctx, const u8 *key, u32 len) = (void *)p->fn[0];

	fn(dst, src, (u32)p->m.len);
}

/* The message is the key. The result is the encryption keys, followed by the decryption keys. */
ONE(aes_expandkey)
{
	void (*const fn)(u8 *keys, u8 *inverse, const u8 *key) = (void *)p->fn[0];

	fn(dst, dst + p->digest / 2, src);
}

/* fn[] contains the functions update, aad and final. */
ONE(gcm)
{
	void (*const update)(void *key, const u32 *ctr, u8 *acc, const u8 *src, u8 *dst,
			     int len) = (void *)p->fn[0];
	void (*const aad)(void *key, u8 *acc, const u8 *aad, int len) = (void *)p->fn[1];
	u32 ctr[4] ALIGNED = { 2, be32(iv + 8), be32(iv + 4), be32(iv) };
	u8 acc[16] ALIGNED = { 0 };

	src += p->m.prefix;
	dst += p->m.prefix;
	aad(p->key, acc, src - p->m.prefix, (int)p->m.prefix);
	update(p->key, ctr, acc, src, dst, (int)p->m.len);
	if (p->m.decrypt) {
		bool (*const final)(void *key, const u32 *ctr, const u8 *acc, u64 aad, u64 len,
				    const u8 *tag, int tag_len) = (void *)p->fn[2];

		/* If the tag does not verify, make the output wrong, so that the caller notices. */
		if (!final(p->key, ctr, acc, p->m.prefix, p->m.len, src + p->m.len, TAG))
			dst[0] ^= 0xff;
	} else {
		void (*const final)(void *key, const u32 *ctr, u8 *acc, u64 aad, u64 len) =
			(void *)p->fn[2];

		final(p->key, ctr, acc, p->m.prefix, p->m.len);
		store128(dst + p->m.len, acc);
	}
}

/* fn[] contains the functions enc or dec, init, ad and final. */
ONE(aegis)
{
	void (*const crypt)(u8 *state, const u8 *src, u8 *dst, u32 len) = (void *)p->fn[0];
	void (*const init)(u8 *state, void *key, const u8 *iv) = (void *)p->fn[1];
	void (*const ad)(u8 *state, const u8 *ad, u32 len) = (void *)p->fn[2];
	void (*const final)(u8 *state, u8 *tag, u32 ad, u32 len) = (void *)p->fn[3];
	u8 lanes[5 * 16] ALIGNED, tag[16] ALIGNED = { 0 };

	src += p->m.prefix;
	dst += p->m.prefix;
	init(lanes, p->key, iv);
	ad(lanes, src - p->m.prefix, (u32)p->m.prefix);
	crypt(lanes, src, dst, (u32)p->m.len);
	if (p->m.decrypt)
		store128(tag, src + p->m.len);
	final(lanes, tag, (u32)p->m.prefix, (u32)p->m.len);
	if (!p->m.decrypt)
		store128(dst + p->m.len, tag);
	else if (load64(tag) | load64(tag + 8))
		dst[0] ^= 0xff;
}

/*
 * Builds the state of RFC 8439 from constants, key, counter and nonce. extra is the number of
 * rounds.
 */
ONE(chacha)
{
	void (*const fn)(u32 *state, u8 *dst, const u8 *src, u32 len, int rounds) =
		(void *)p->fn[0];
	u32 words[16] ALIGNED = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 };
	u64 at;

	store128((u8 *)&words[4], p->key);
	store128((u8 *)&words[8], p->key + 16);
	store128((u8 *)&words[12], iv);
	for (at = 0; at < p->m.len; at += p->chunk) {
		const u64 left = p->m.len - at;

		fn(words, dst + at, src + at, (u32)(left < p->chunk ? left : p->chunk),
		   (int)p->extra);
		words[12] += (u32)(p->chunk / 64);
	}
}

/* The message is the nonce. */
ONE(hchacha)
{
	void (*const fn)(const u32 *state, u8 *dst, int rounds) = (void *)p->fn[0];
	u32 words[16] ALIGNED = { 0x61707865, 0x3320646e, 0x79622d32, 0x6b206574 };

	store128((u8 *)&words[4], p->key);
	store128((u8 *)&words[8], p->key + 16);
	store128((u8 *)&words[12], src);
	fn(words, dst, (int)p->extra);
}

/* Hashes the two halves of the message as two separate messages. */
ONE(finup2x)
{
	void (*const fn)(const u8 *ctx, const u8 *a, const u8 *b, int len, u8 *out_a, u8 *out_b) =
		(void *)p->fn[0];
	const u64 half = p->m.len / 2;

	fn(state, src, src + half, (int)half, dst, dst + p->digest / 2);
}

ONE(compress)
{
	void (*const fn)(u8 *state, const u8 *src, u64 blocks, u64 extra) = (void *)p->fn[0];
	u64 i;

	fn(state, src, p->m.len / p->chunk, p->extra);
	for (i = 0; i + 8 <= p->digest; i += 8)
		store64(dst + i, load64(state + i));
	for (; i < p->digest; i++)
		dst[i] = state[i];
}

/* Stores a checksum after XORing it with p->extra, which is also the checksum's initial value. */
static inline void put_crc(const struct kiln_primitive *p, u8 *dst, u64 crc)
{
	crc ^= p->extra;
	if (p->digest == 8)
		__builtin_memcpy(dst, &crc, 8);
	else if (p->digest == 4)
		__builtin_memcpy(dst, &crc, 4);
	else
		__builtin_memcpy(dst, &crc, 2);
}

ONE(crc_last)
{
	u32 (*const fn)(const u8 *src, u64 len, u32 crc) = (void *)p->fn[0];

	put_crc(p, dst, fn(src, p->m.len, (u32)p->extra));
}

ONE(crc_first)
{
	u32 (*const fn)(u32 crc, const u8 *src, u64 len) = (void *)p->fn[0];

	put_crc(p, dst, fn((u32)p->extra, src, p->m.len));
}

/*
 * Computes CRCs of any width. A CRC of less than 64 bits is in the low bits of the first argument
 * and of the result.
 */
ONE(crc_table)
{
	u64 (*const fn)(u64 crc, const u8 *src, u64 len, const void *table) =
		(void *)p->fn[0];

	put_crc(p, dst, fn(p->extra, src, p->m.len, p->key));
}

ONE(ghash)
{
	void (*const fn)(u8 *acc, const u8 *src, u32 len, void *key) = (void *)p->fn[0];
	u8 acc[16] ALIGNED = { 0 };

	fn(acc, src, (u32)p->m.len, p->key);
	store128(dst, acc);
}

ONE(polyval)
{
	void (*const fn)(void *key, const u8 *src, u64 blocks, u8 *acc) = (void *)p->fn[0];
	u8 acc[16] ALIGNED = { 0 };

	fn(p->key, src, p->m.len / 16, acc);
	store128(dst, acc);
}

/* The function only multiplies. The loop adds each block to the accumulator. */
ONE(gf128_mul)
{
	void (*const fn)(u8 *acc, void *key) = (void *)p->fn[0];
	u8 acc[16] ALIGNED = { 0 };
	u64 at;

	for (at = 0; at < p->m.len; at += 16) {
		store64(acc, load64(acc) ^ load64(src + at));
		store64(acc + 8, load64(acc + 8) ^ load64(src + at + 8));
		fn(acc, p->key);
	}
	store128(dst, acc);
}

/* The accumulator has POLYVAL's byte order, which is the reverse of GHASH's. */
ONE(ghash_blocks)
{
	void (*const fn)(u8 *acc, void *key, const u8 *src, u64 blocks) = (void *)p->fn[0];
	u8 acc[16] ALIGNED = { 0 };

	fn(acc, p->key, src, p->m.len / 16);
	store64(dst, __builtin_bswap64(load64(acc + 8)));
	store64(dst + 8, __builtin_bswap64(load64(acc)));
}

ONE(polyval_blocks)
{
	void (*const fn)(u8 *acc, void *key, const u8 *src, u64 blocks) = (void *)p->fn[0];
	u8 acc[16] ALIGNED = { 0 };

	fn(acc, p->key, src, p->m.len / 16);
	store128(dst, acc);
}

/* XORs the hashes of all chunks together, so that each chunk affects the result. */
ONE(nh)
{
	void (*const fn)(void *key, const u8 *src, u64 len, u8 *hash) = (void *)p->fn[0];
	u64 sum[4] = { 0 }, at;
	u8 hash[32] ALIGNED;
	int i;

	for (at = 0; at < p->m.len; at += p->chunk) {
		const u64 left = p->m.len - at;

		fn(p->key, src + at, left < p->chunk ? left : p->chunk, hash);
		for (i = 0; i < 4; i++)
			sum[i] += load64(hash + 8 * i);
	}
	for (i = 0; i < 4; i++)
		store64(dst + 8 * i, sum[i]);
}

/* The one-time key precedes the message. fn[] contains the functions blocks, init and emit. */
ONE(poly1305)
{
	void (*const blocks)(u8 *state, const u8 *src, u64 len, u32 padbit) = (void *)p->fn[0];
	void (*const init)(u8 *state, const u8 *key) = (void *)p->fn[1];
	void (*const emit)(u8 *state, u8 *mac, const u8 *nonce) = (void *)p->fn[2];
	u8 sums[512] ALIGNED;

	init(sums, src);
	blocks(sums, src + p->m.prefix, p->m.len, 1);
	emit(sums, dst, src + 16);
}

ONE(x25519)
{
	void (*const fn)(u8 *out, const u8 *secret, const u8 *point) = (void *)p->fn[0];

	fn(dst, p->key, src);
}

/* Copies the original IVs and initial states for all messages, because calls modify them. */
static void refresh(const struct kiln_primitive *p)
{
	u64 i;

	copy(p->m.iv_room, p->m.iv, p->m.count * p->m.iv_stride);
	for (i = 0; p->start_size && i < p->m.count; i++)
		copy(p->states + i * p->start_size, p->start, p->start_size);
}

/*
 * Defines the loop over the calls. The loop advances the pointers by addition, because four
 * multiplications per call would cost two cycles for a short message.
 */
#define LOOP(name)                                              \
	for (n = 0; n < p->m.calls; n++) {                        \
		if (!left) {                                    \
			refresh(p);                             \
			src = p->m.src, dst = p->m.dst;             \
			iv = p->m.iv_room, state = p->states;   \
			left = p->m.count;                        \
		}                                               \
		one_##name(p, src, dst, iv, state);             \
		src += p->m.src_stride, dst += p->m.dst_stride;     \
		iv += p->m.iv_stride, state += p->start_size;     \
		left--;                                         \
	}                                                       \
	break

/* Makes the calls that @given describes. Returns 0, or -1 if the convention is unknown. */
uint64_t kiln_image_series(struct kiln_primitive *given)
{
	const struct kiln_primitive here = *given, *const p = &here;
	const u8 *src = NULL;
	u8 *dst = NULL, *iv = NULL, *state = NULL;
	u64 n, left = 0, result = 0;

	kiln_glue_section_begin();
	switch ((enum call)p->call) {
	case CALL_BLOCKS: LOOP(blocks);
	case CALL_LEN: LOOP(len);
	case CALL_LEN_IV: LOOP(len_iv);
	case CALL_CBC_BLOCKS: LOOP(cbc_blocks);
	case CALL_STREAM_BLOCKS: LOOP(stream_blocks);
	case CALL_IV_BLOCKS: LOOP(iv_blocks);
	case CALL_XTS: LOOP(xts);
	case CALL_XTS_AESNI: LOOP(xts_aesni);
	case CALL_CTR_BY8: LOOP(ctr_by8);
	case CALL_XCTR_BY8: LOOP(xctr_by8);
	case CALL_GCM: LOOP(gcm);
	case CALL_AEGIS: LOOP(aegis);
	case CALL_CHACHA: LOOP(chacha);
	case CALL_COMPRESS: LOOP(compress);
	case CALL_CRC_LAST: LOOP(crc_last);
	case CALL_CRC_FIRST: LOOP(crc_first);
	case CALL_GHASH: LOOP(ghash);
	case CALL_POLYVAL: LOOP(polyval);
	case CALL_NH: LOOP(nh);
	case CALL_POLY1305: LOOP(poly1305);
	case CALL_X25519: LOOP(x25519);
	case CALL_AES_BLOCK: LOOP(aes_block);
	case CALL_AES_SET_KEY: LOOP(aes_set_key);
	case CALL_AES_EXPANDKEY: LOOP(aes_expandkey);
	case CALL_CTR64: LOOP(ctr64);
	case CALL_XCTR: LOOP(xctr);
	case CALL_HCHACHA: LOOP(hchacha);
	case CALL_FINUP2X: LOOP(finup2x);
	case CALL_CRC_TABLE: LOOP(crc_table);
	case CALL_GF128_MUL: LOOP(gf128_mul);
	case CALL_GHASH_BLOCKS: LOOP(ghash_blocks);
	case CALL_POLYVAL_BLOCKS: LOOP(polyval_blocks);
	default:
		result = -1;
	}
	kiln_glue_section_end();
	return result;
}
