/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One implementation of an algorithm: its names, its parameters and its functions. Each
 * directory of ciphers/ has a table of them; ciphers/list.c has them all.
 *
 * What is common to all functions:
 * - implementations of a SIMD tier are called inside an FPU section; none opens one;
 * - a context (@ctxsize bytes) holds what setkey made of the key, a state (@statesize)
 *   what a message in pieces has come to. Both are aligned to 64 and are plain memory:
 *   a copy of a state goes on where the original was, and any tier of an algorithm goes on
 *   with the state of any other;
 * - source and destination are the same or do not overlap; no alignment is asked for;
 *   nothing beyond the lengths given is read or written;
 * - a length of zero is a message, where the algorithm has one.
 */
#ifndef KILN_CIPHER_H
#define KILN_CIPHER_H

#include <kiln/types.h>

enum kiln_kind { KILN_SKCIPHER, KILN_AEAD, KILN_HASH };

/* Bytes of the largest context, state, IV, tag or digest there is. */
#define KILN_MAX_CTX 8192
#define KILN_MAX_STATE 1024
#define KILN_MAX_IV 32
#define KILN_MAX_DIGEST 64

#define KILN_ANY_KEY 0xffffffff

/*
 * @len bytes, a multiple of the block size unless this is the last piece of the message.
 * @iv is the IV of the message, @ivsize bytes, and is left as the next piece needs it (for
 * CBC the last block of ciphertext, for a counter mode the next counter), as Linux's
 * skciphers leave it.
 */
typedef void kiln_crypt_t(const void *ctx, u8 *dst, const u8 *src, size_t len, u8 *iv);

/*
 * One whole message, whose text is not longer than @longest. Callers refuse longer ones
 * (kiln_text_fits()): the block counter would wrap. Requests to the crypto API have 32-bit
 * lengths, which are never too long.
 *
 * Seal writes the tag (@tagsize bytes); open compares it in constant
 * time and returns 0, or -EBADMSG with the destination wiped.
 */
typedef void kiln_seal_t(const void *ctx, u8 *dst, const u8 *src, size_t len,
			 const u8 *aad, size_t aadlen, const u8 *iv, u8 *tag,
			 size_t tagsize);
typedef int kiln_open_t(const void *ctx, u8 *dst, const u8 *src, size_t len,
			const u8 *aad, size_t aadlen, const u8 *iv, const u8 *tag,
			size_t tagsize);

/*
 * Independent messages under one key, encrypted side by side: for modes that are serial within a
 * message. Each is whole and has its own length, which may be zero; its IV is left as
 * kiln_crypt_t leaves it. Messages do not overlap each other; source and destination of one are
 * the same or do not overlap.
 */
struct kiln_message {
	u8 *dst;
	const u8 *src;
	size_t len;
	u8 *iv;
};

typedef void kiln_crypt_many_t(const void *ctx, const struct kiln_message *m, size_t count);

/*
 * An algorithm whose later pieces cannot be described by an IV (XTS: the tweak has been encrypted)
 * has first(), which replaces the IV by what functions for pieces take and update; its encrypt()
 * and decrypt() take whole messages only and do not change the IV. All others have NULL there.
 */
struct kiln_cipher_ops {
	kiln_crypt_t *encrypt, *decrypt;
	void (*first)(const void *ctx, u8 *iv);
	kiln_crypt_t *encrypt_piece, *decrypt_piece;
	/* NULL where messages one after the other are as fast; else @lanes are encrypted at a time. */
	kiln_crypt_many_t *encrypt_many;
	u32 lanes;
};

/*
 * In pieces: begin (with the lengths of the whole message, which CCM needs), the
 * associated data in any pieces, then the text in pieces of whole blocks but the last,
 * then the tag of @tagsize bytes. When decrypting the caller compares it.
 */
struct kiln_aead_ops {
	kiln_seal_t *seal;
	kiln_open_t *open;
	void (*begin)(const void *ctx, void *state, const u8 *iv, size_t aadlen,
		      size_t len, size_t tagsize);
	void (*aad)(const void *ctx, void *state, const u8 *aad, size_t len);
	void (*encrypt)(const void *ctx, void *state, u8 *dst, const u8 *src, size_t len);
	void (*decrypt)(const void *ctx, void *state, u8 *dst, const u8 *src, size_t len);
	void (*end)(const void *ctx, void *state, u8 *tag, size_t tagsize);
};

/* @ctx is NULL for hashes without a key. digest() is the three in one. */
struct kiln_hash_ops {
	void (*init)(const void *ctx, void *state);
	void (*update)(const void *ctx, void *state, const u8 *data, size_t len);
	void (*final)(const void *ctx, void *state, u8 *out);
	void (*digest)(const void *ctx, const u8 *data, size_t len, u8 *out);
	/*
	 * Whether update() and final() may be given a state that came from outside: bad counters
	 * would lead them out of its buffer. NULL where any bytes will do.
	 */
	bool (*valid)(const void *state);
};

/*
 * Bytes of an FPU section by how fast the algorithm is, for the way "class" of crypto/cut.c: the
 * three values considered in the thread that posted.def there is from. All are whole blocks.
 */
enum kiln_class {
	KILN_SLOW = 16 << 10,
	KILN_MEDIUM = 256 << 10,
	KILN_FAST = 512 << 10,
};

struct kiln_impl {
	const char *alg;	/* the kernel's name: "ctr(aes)" */
	const char *driver;	/* "ctr-aes-vaes-avx512" */
	u32 kind;		/* enum kiln_kind */
	u32 tier;		/* enum kiln_tier */
	u32 priority;		/* the usable one with the highest is chosen */
	bool constant_time;
	/* Bytes. Keys from min to max in steps; max 0: no key, KILN_ANY_KEY: no longest one. */
	u32 key_min, key_max, key_step;
	u32 ivsize;
	u32 blocksize;		/* of a skcipher's messages, a power of two: 1 for any length */
	u32 shortest;		/* of a message */
	u32 digestsize;		/* of a hash, or the longest tag */
	u32 tag_min, tag_step;	/* shorter tags: digestsize, digestsize - step ... min */
	u32 ctxsize, statesize;
	u32 class;		/* enum kiln_class; 0: sections end at a page */
	u64 longest;		/* of an AEAD's texts, by its counter; 0: no limit */
	/* 0, or -EINVAL with the context unchanged. In any context, without a section. */
	int (*setkey)(void *ctx, const u8 *key, size_t len);
	union {
		struct kiln_cipher_ops cipher;
		struct kiln_aead_ops aead;
		struct kiln_hash_ops hash;
	};
};

static inline bool kiln_text_fits(const struct kiln_impl *impl, u64 len)
{
	return !impl->longest || len <= impl->longest;
}

static inline bool kiln_hash_valid(const struct kiln_impl *impl, const void *state)
{
	return !impl->hash.valid || impl->hash.valid(state);
}

/* The implementation of @alg without vector registers that has the highest priority, or NULL. */
const struct kiln_impl *kiln_best_scalar(const char *alg);

/* The table of one directory. */
struct kiln_impls {
	const struct kiln_impl *impl;
	size_t count;
};

#endif
