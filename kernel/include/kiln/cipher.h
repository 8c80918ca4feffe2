/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One implementation of an algorithm: its names, its parameters and its functions. Each
 * directory of ciphers/ has a table of implementations; ciphers/list.c combines the tables.
 *
 * Rules for all functions:
 * - functions of a SIMD tier never open an FPU section; the caller opens it around the call;
 * - a context (@ctxsize bytes) holds the expanded key; a state (@statesize bytes) holds the
 *   progress of a message processed in pieces. Both are aligned to 64 bytes and are plain memory: a
 *   copy of a state can continue where the original was, and any tier of an algorithm can continue
 *   from the state of any other tier;
 * - source and destination are the same or do not overlap, and need no alignment;
 *   nothing beyond the given lengths is read or written;
 * - a message may have a length of zero if the algorithm allows that.
 */
#ifndef KILN_CIPHER_H
#define KILN_CIPHER_H

#include <kiln/types.h>

enum kiln_kind { KILN_SKCIPHER, KILN_AEAD, KILN_HASH };

/* Sizes in bytes of the largest context, state, IV, tag and digest. */
#define KILN_MAX_CTX 8192
#define KILN_MAX_STATE 1024
#define KILN_MAX_IV 32
#define KILN_MAX_DIGEST 64

#define KILN_ANY_KEY 0xffffffff

/*
 * Encrypts or decrypts @len bytes, a multiple of the block size unless this is the last piece of
 * the message. @iv has @ivsize bytes. On entry it holds the IV of this piece, on return the IV of
 * the next one (for CBC the last block of ciphertext, for a counter mode the next counter), as with
 * Linux's skciphers.
 */
typedef void kiln_crypt_t(const void *ctx, u8 *dst, const u8 *src, size_t len, u8 *iv);

/*
 * Process one whole message. A text longer than @longest would make the block counter wrap, so
 * callers must reject it (kiln_text_fits()). Requests to the crypto API have 32-bit lengths, which
 * never exceed this limit.
 *
 * kiln_seal_t writes the tag (@tagsize bytes). kiln_open_t compares it in constant
 * time and returns 0, or -EBADMSG with the destination wiped.
 */
typedef void kiln_seal_t(const void *ctx, u8 *dst, const u8 *src, size_t len,
			 const u8 *aad, size_t aadlen, const u8 *iv, u8 *tag,
			 size_t tagsize);
typedef int kiln_open_t(const void *ctx, u8 *dst, const u8 *src, size_t len,
			const u8 *aad, size_t aadlen, const u8 *iv, const u8 *tag,
			size_t tagsize);

/*
 * Independent messages processed in parallel under one key, by algorithms that are serial within a
 * message. Each message has its own length, which may be zero. Messages do not overlap each other.
 *
 * A cipher encrypts complete messages, and updates their IVs in the same way as kiln_crypt_t;
 * source and destination of a message are the same or do not overlap. A hash writes the digest to
 * @dst, which overlaps none of the sources, and does not use @iv.
 */
struct kiln_message {
	u8 *dst;
	const u8 *src;
	size_t len;
	u8 *iv;
};

typedef void kiln_crypt_many_t(const void *ctx, const struct kiln_message *m, size_t count);

/*
 * Finishes hashes that all continue from @state, which is not changed: the hash of each message
 * covers what @state has absorbed and then the message. Callers that hash whole messages pass the
 * result of init(). fs-verity, which hashes a salt before each block of a file, passes the state
 * after the salt.
 */
typedef void kiln_finish_many_t(const void *ctx, const void *state,
				const struct kiln_message *m, size_t count);

/*
 * One of several messages of an AEAD processed in parallel under one key. Each has its own lengths
 * in bytes, which may be zero, its own IV of @ivsize bytes and its own tag of @tagsize bytes. Texts
 * must not be longer than @longest. @dst may equal @src. Otherwise, a buffer that is written (@dst,
 * and @tag when sealing) must not overlap any other buffer of these messages. kiln_open_many_t only
 * reads @tag.
 */
struct kiln_aead_message {
	u8 *dst;
	const u8 *src;
	size_t len;
	const u8 *aad;
	size_t aadlen;
	const u8 *iv;
	u8 *tag;
};

/*
 * kiln_seal_many_t writes the tags. kiln_open_many_t compares the tags in constant time. For each
 * message it sets the element of @err, an array of @count elements, to 0, or to -EBADMSG with the
 * message's destination wiped. A wrong tag does not affect other messages. Returns the number of
 * wrong tags.
 */
typedef void kiln_seal_many_t(const void *ctx, const struct kiln_aead_message *m, size_t count,
			      size_t tagsize);
typedef size_t kiln_open_many_t(const void *ctx, const struct kiln_aead_message *m, size_t count,
				size_t tagsize, int *err);

/*
 * In XTS, an IV cannot describe a later piece of a message, since the tweak has been encrypted. For
 * such algorithms, first() replaces the IV with the value that encrypt_piece() and decrypt_piece()
 * take and update; encrypt() and decrypt() take whole messages only and do not change the IV. For
 * all other algorithms, first() and the functions for pieces are NULL.
 */
struct kiln_cipher_ops {
	kiln_crypt_t *encrypt, *decrypt;
	void (*first)(const void *ctx, u8 *iv);
	kiln_crypt_t *encrypt_piece, *decrypt_piece;
	/*
	 * Encrypts @lanes messages in parallel. NULL if encrypting them one after another is as
	 * fast.
	 */
	kiln_crypt_many_t *encrypt_many;
	u32 lanes;
};

/*
 * Functions for a message in pieces: begin() takes the lengths of the whole message, which CCM
 * needs; aad() takes pieces of any length; encrypt() and decrypt() take pieces of whole blocks,
 * except for the last one; end() writes the tag of @tagsize bytes. When decrypting, the caller
 * compares the tag.
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
	/*
	 * Process @lanes messages in parallel. NULL if the implementation processes one message at
	 * a time. With few messages, most lanes are idle, so for fewer than about four short
	 * messages, calling seal() or open() for each is faster.
	 */
	kiln_seal_many_t *seal_many;
	kiln_open_many_t *open_many;
	u32 lanes;
};

/*
 * A hash's functions. @ctx is NULL for a hash without a key. digest() combines init(), update() and
 * final().
 */
struct kiln_hash_ops {
	void (*init)(const void *ctx, void *state);
	void (*update)(const void *ctx, void *state, const u8 *data, size_t len);
	void (*final)(const void *ctx, void *state, u8 *out);
	void (*digest)(const void *ctx, const u8 *data, size_t len, u8 *out);
	/*
	 * Returns whether an imported state is safe for update() and final(): with a bad counter
	 * they would access memory beyond the state's buffer. NULL if all states are safe.
	 */
	bool (*valid)(const void *state);
	/*
	 * Finishes the hashes of @lanes messages in parallel. NULL if the implementation processes
	 * one message at a time.
	 */
	kiln_finish_many_t *finish_many;
	u32 lanes;
};

/*
 * Bytes per FPU section, depending on the speed of the algorithm, for the strategy "class" in
 * crypto/cut.c. The three values were considered in the mail thread that crypto/posted.def cites.
 * All are multiples of every block size.
 */
enum kiln_class {
	KILN_SLOW = 16 << 10,
	KILN_MEDIUM = 256 << 10,
	KILN_FAST = 512 << 10,
};

struct kiln_impl {
	const char *alg;	/* name in the kernel, such as "ctr(aes)" */
	const char *driver;	/* unique name, such as "ctr-aes-vaes-avx512" */
	u32 kind;		/* enum kiln_kind */
	u32 tier;		/* enum kiln_tier */
	u32 priority;		/* the usable implementation with the highest priority is chosen */
	bool constant_time;
	/*
	 * Key lengths in bytes, from min to max in increments of step. If max is 0, the
	 * algorithm has no key. If max is KILN_ANY_KEY, keys may have any length.
	 */
	u32 key_min, key_max, key_step;
	u32 ivsize;
	u32 blocksize;		/* skcipher: message lengths are multiples of this power of two */
	u32 shortest;		/* minimum length of a message in bytes */
	u32 digestsize;		/* bytes of a hash's digest or of an AEAD's longest tag */
	u32 tag_min, tag_step;	/* tag lengths: digestsize down to tag_min in steps of tag_step */
	u32 ctxsize, statesize;
	u32 class;		/* enum kiln_class; 0: sections end at page boundaries */
	u64 longest;		/* AEAD: maximum text bytes, due to the counter; 0: no limit */
	/*
	 * Returns 0, or -EINVAL with @ctx unchanged. May be called in any context, without a
	 * section.
	 */
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

/*
 * Returns the implementation of @alg with the highest priority among those that do not use vector
 * registers, or NULL.
 */
const struct kiln_impl *kiln_best_scalar(const char *alg);

/* The table of implementations in one directory of ciphers/. */
struct kiln_impls {
	const struct kiln_impl *impl;
	size_t count;
};

#endif
