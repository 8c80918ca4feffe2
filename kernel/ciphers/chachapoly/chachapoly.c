// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * ChaCha20-Poly1305 (RFC 8439, 2.8): code that all tiers share, and the list of implementations.
 *
 * Messages of at most one block of text have their own functions (short.h). For longer messages,
 * the first blocks of the key stream are computed together: block 0, the key of Poly1305, in
 * general-purpose registers, and the blocks after it in vectors. The rest of the message is
 * encrypted and hashed in chunks that fit in the L1 cache. Decryption first hashes the whole
 * message and checks its tag.
 *
 * Interleaving the instructions of both algorithms was tried with chunks of 2048 bytes (Zen 5,
 * AVX-512). It forced a third of ChaCha20's state into memory, and a chunk took 850 cycles. If the
 * algorithms run one after the other, ChaCha20 takes 690 cycles and Poly1305 195, 885 in total.
 * Interleaving gains so little because each algorithm alone is already near the limit of four
 * operations per cycle.
 */
#include <kiln/string.h>
#include <kiln/unaligned.h>

#include "../entry.h"
#include "../list.h"
#include "../partial.h"
#include "../poly1305/poly1305.h"
#include "../verdict.h"
#include "chachapoly.h"

#define TAG_SIZE POLY1305_DIGEST_SIZE

/* Bytes per chunk, which is encrypted and then hashed while it is in the L1 cache. */
#define TURN 8192

struct tier {
	/* NULL, or the functions for short messages */
	chachapoly_seal_t *seal;
	chachapoly_open_t *open;
	chacha_crypt_t *crypt;
	chacha_start_t *start;
	chacha_stream_t *stream;
	chacha_xor_t *xor;
	chacha_wipe_t *wipe;
	poly1305_blocks_t *blocks;
	size_t ahead;		/* maximum number of bytes encrypted together with block 0 */
	size_t few;		/* maximum length that is hashed without powers; at most @ahead */
};

struct mac {
	struct poly1305_key key;
	struct poly1305_sum sum;
};

/* State of a message processed in pieces. */
struct state {
	struct mac mac;
	u64 aadlen, len;
	u8 iv[CHACHA_IV_SIZE];
	u8 kept[POLY1305_BLOCK_SIZE];	/* the last (aadlen % 16) bytes of associated data, padded */
	u64 in_text;
};

static __always_inline void iv_from(u8 iv[CHACHA_IV_SIZE], const u8 *nonce, u32 counter)
{
	put_le32(counter, iv);
	put_le64(get_le64(nonce), iv + 4);
	put_le32(get_le32(nonce + 8), iv + 12);
}

static __always_inline void hash_lengths(struct mac *mac, u64 aadlen, u64 len)
{
	poly1305_two_words(&mac->key, &mac->sum, aadlen, len);
}

/* Hashes data and pads it with zeros to whole blocks. */
static __always_inline void hash_padded(poly1305_blocks_t *blocks, struct mac *mac,
					const u8 *data, size_t len)
{
	const size_t whole = len & ~(size_t)(POLY1305_BLOCK_SIZE - 1);

	if (whole)
		blocks(&mac->key, &mac->sum, data, whole / POLY1305_BLOCK_SIZE);
	if (len > whole)
		poly1305_part(&mac->key, &mac->sum, data + whole, len - whole, true);
}

struct whole {
	struct mac mac;
	size_t ahead;		/* bytes of text whose key stream was computed with block 0 */
	bool powers;
	u8 iv[CHACHA_IV_SIZE];	/* counter and nonce of the first block after @ahead */
};

static __always_inline void whole_padded(const struct tier *t, struct whole *o, const u8 *data,
					 size_t len)
{
	if (o->powers)
		hash_padded(t->blocks, &o->mac, data, len);
	else
		hash_padded(poly1305_blocks_generic, &o->mac, data, len);
}

/* Begins a message. If @stream_only, writes the key stream to @dst and does not read @src. */
static __always_inline void whole_begin(const struct tier *t, const struct chacha_key *key,
					struct whole *o, u8 *dst, const u8 *src,
					const bool stream_only, size_t len, const u8 *nonce,
					const u8 *aad, size_t aadlen)
{
	const size_t most = len > aadlen ? len : aadlen;
	size_t hashed;

	o->ahead = len < t->ahead ? len : t->ahead;
	o->powers = most > t->few;
	hashed = o->powers ? most : 0;
	if (stream_only)
		t->stream(key, &o->mac.key, hashed, dst, o->ahead, nonce);
	else
		t->start(key, &o->mac.key, hashed, dst, src, o->ahead, nonce);
	if (len > o->ahead)
		iv_from(o->iv, nonce, 1 + (u32)(t->ahead / CHACHA_BLOCK_SIZE));
	o->mac.sum = (struct poly1305_sum){ { 0 } };
	whole_padded(t, o, aad, aadlen);
}

static __always_inline void whole_end(const struct tier *t, struct whole *o, size_t aadlen,
				      size_t len, u8 *tag)
{
	hash_lengths(&o->mac, aadlen, len);
	poly1305_emit(&o->mac.key, &o->mac.sum, tag);
	if (o->powers) {
		t->wipe((u8 *)&o->mac, sizeof(o->mac));
	} else {
		/* Wipe the sum: with the sum and the public tag, anyone could compute s. */
		o->mac.sum = (struct poly1305_sum){ { 0 } };
		wipe_words(&o->mac.key, sizeof(o->mac.key.r) + sizeof(o->mac.key.s));
	}
}

/*
 * A message with much associated data does not count as short, because the associated data would be
 * hashed without powers of the key, one block after the other.
 */
static __always_inline bool is_short(const struct tier *t, size_t len, size_t aadlen)
{
	return t->seal && len <= CHACHA_BLOCK_SIZE && aadlen <= 2 * CHACHA_BLOCK_SIZE;
}

static __always_inline void seal(const struct tier *t, const struct chacha_key *key, u8 *dst,
				 const u8 *src, size_t len, const u8 *aad, size_t aadlen,
				 const u8 *nonce, u8 *tag, size_t tagsize __maybe_unused)
{
	struct whole o;
	size_t at, n;

	if (is_short(t, len, aadlen)) {
		t->seal(key, dst, src, len, aad, aadlen, nonce, tag);
		return;
	}
	whole_begin(t, key, &o, dst, src, false, len, nonce, aad, aadlen);
	n = o.ahead;
	if (n < len) {
		/* n is a multiple of the block size here, because text remains. */
		t->blocks(&o.mac.key, &o.mac.sum, dst, n / POLY1305_BLOCK_SIZE);
		for (at = n; at < len; at += n) {
			n = len - at < TURN ? len - at : TURN;
			t->crypt(key, dst + at, src + at, n, o.iv);
			put_le32(get_le32(o.iv) + TURN / 64, o.iv);
			hash_padded(t->blocks, &o.mac, dst + at, n);
		}
	} else {
		whole_padded(t, &o, dst, len);
	}
	whole_end(t, &o, aadlen, len, tag);
}

static __always_inline int open(const struct tier *t, const struct chacha_key *key, u8 *dst,
				const u8 *src, size_t len, const u8 *aad, size_t aadlen,
				const u8 *nonce, const u8 *tag,
				size_t tagsize __maybe_unused)
{
	u8 stream[CHACHA_AHEAD] __aligned(64);
	struct whole o;
	u64 right[2], differ;
	bool wrong;

	if (is_short(t, len, aadlen))
		return t->open(key, dst, src, len, aad, aadlen, nonce, tag) ? -EBADMSG : 0;
	whole_begin(t, key, &o, stream, NULL, true, len, nonce, aad, aadlen);
	whole_padded(t, &o, src, len);
	whole_end(t, &o, aadlen, len, (u8 *)right);
	differ = (right[0] ^ get_le64(tag)) | (right[1] ^ get_le64(tag + 8));
	right[0] = right[1] = 0;
	__asm__ volatile("" : : "r"(right) : "memory");
	wrong = tag_is_wrong(differ);
	if (!wrong) {
		t->xor(dst, src, stream, o.ahead);
		if (len > o.ahead)
			t->crypt(key, dst + o.ahead, src + o.ahead, len - o.ahead, o.iv);
	} else {
		memset(dst, 0, len);
	}
	/*
	 * The key stream beyond @ahead bytes is not used for encryption, so it need not be wiped.
	 */
	t->wipe(stream, o.ahead);
	return wrong ? -EBADMSG : 0;
}

static void begin(const void *key, void *state, const u8 *nonce, size_t aadlen __maybe_unused,
		  size_t len __maybe_unused, size_t tagsize __maybe_unused)
{
	struct state *s = state;
	u8 block[CHACHA_BLOCK_SIZE];

	memset(s, 0, sizeof(*s));
	iv_from(s->iv, nonce, 0);
	chacha_block_generic(key, block, s->iv);
	put_le32(1, s->iv);
	poly1305_clamp(&s->mac.key, block);
	/* Compute all powers, since any tier may continue from this state. */
	poly1305_powers(&s->mac.key);
	memzero_explicit(block, sizeof(block));
}

static __always_inline void add_aad(const struct tier *t, const void *ctx __maybe_unused,
				    struct state *s, const u8 *aad, size_t len)
{
	u64 kept = s->aadlen % POLY1305_BLOCK_SIZE;

	s->aadlen += len;
	if (kept) {
		if (!fill_block(s->kept, &kept, POLY1305_BLOCK_SIZE, &aad, &len))
			return;
		poly1305_block(&s->mac.key, &s->mac.sum, s->kept, 1);
		memset(s->kept, 0, sizeof(s->kept));
	}
	if (len >= POLY1305_BLOCK_SIZE)
		t->blocks(&s->mac.key, &s->mac.sum, aad, len / POLY1305_BLOCK_SIZE);
	memcpy(s->kept, aad + (len & ~(size_t)(POLY1305_BLOCK_SIZE - 1)),
	       len % POLY1305_BLOCK_SIZE);
}

static __always_inline void end_aad(struct state *s)
{
	if (!s->in_text && s->aadlen % POLY1305_BLOCK_SIZE)
		poly1305_block(&s->mac.key, &s->mac.sum, s->kept, 1);
	s->in_text = 1;
}

static __always_inline void crypt(const struct tier *t, const bool decrypt,
				  const struct chacha_key *key, struct state *s, u8 *dst,
				  const u8 *src, size_t len)
{
	end_aad(s);
	s->len += len;
	if (decrypt)
		hash_padded(t->blocks, &s->mac, src, len);
	t->crypt(key, dst, src, len, s->iv);
	put_le32(get_le32(s->iv) + (u32)((len + 63) / 64), s->iv);
	if (!decrypt)
		hash_padded(t->blocks, &s->mac, dst, len);
}

static void end(const void *ctx __maybe_unused, void *state, u8 *tag,
		size_t tagsize __maybe_unused)
{
	struct state *s = state;

	end_aad(s);
	hash_lengths(&s->mac, s->aadlen, s->len);
	poly1305_emit(&s->mac.key, &s->mac.sum, tag);
	memzero_explicit(s, sizeof(*s));
}

#define TIER(name, seal_short, open_short, blocks_ahead, few_bytes)                   \
static const struct tier name = {                                                     \
	seal_short, open_short, chacha_crypt_##name, chacha_start_##name,             \
	chacha_stream_##name, chacha_xor_##name, chacha_wipe_##name,                  \
	poly1305_blocks_##name, blocks_ahead, few_bytes,                              \
};                                                                                    \
AEAD_SEAL(seal_##name, seal, &name)                                                   \
AEAD_OPEN(open_##name, open, &name)                                                   \
AEAD_AAD(aad_##name, add_aad, &name)                                                  \
AEAD_TEXT(encrypt_##name, crypt, &name, false)                                        \
AEAD_TEXT(decrypt_##name, crypt, &name, true)
TIER(generic, NULL, NULL, 64, ~(size_t)0)
TIER(aesni, chachapoly_seal_aesni, chachapoly_open_aesni, 256, 256)
TIER(avx2, chachapoly_seal_avx2, chachapoly_open_avx2, 512, 447)
TIER(vaes_avx512, chachapoly_seal_vaes_avx512, chachapoly_open_vaes_avx512, 2048, 191)

/*
 * Maximum number of bytes of text: the block counter has 32 bits, and block 0 is the MAC's key (RFC
 * 8439).
 */
#define MAX_TEXT (((1ull << 32) - 1) * 64)

#define IMPL(name, tier_name, end_name, prio)                                         \
	{                                                                             \
		.alg = "rfc7539(chacha20,poly1305)",                                  \
		.driver = "rfc7539-chacha20-poly1305-" end_name,                      \
		.kind = KILN_AEAD, .tier = KILN_TIER_##tier_name, .priority = prio,   \
		.constant_time = true, .key_min = CHACHA_KEY_SIZE,                    \
		.key_max = CHACHA_KEY_SIZE, .ivsize = CHACHA_NONCE_SIZE, .blocksize = 1,     \
		.digestsize = TAG_SIZE, .tag_min = TAG_SIZE,                          \
		.ctxsize = sizeof(struct chacha_key),                                 \
		.statesize = sizeof(struct state), .longest = MAX_TEXT,               \
		.class = KILN_MEDIUM, .setkey = chacha_setkey,                        \
		.aead = { .seal = seal_##name, .open = open_##name, .begin = begin,   \
			  .aad = aad_##name, .encrypt = encrypt_##name,               \
			  .decrypt = decrypt_##name, .end = end },                    \
	},

static const struct kiln_impl impls[] = {
	VECTOR_ALL(IMPL, "ssse3")
};

KILN_IMPLS(chachapoly_impls, impls);
