/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Describes the functions that the tree's library exports, such as sha256(). Each function has a
 * wrapper that calls it on one message. All wrappers have the same parameters. hashes.c, ciphers.c
 * and checksums.c each contain a table of descriptions, and library.c calls the wrappers.
 *
 * The functions are declared weak, because a configuration may leave some of them out. Version
 * checks handle the differences between Linux versions.
 */
#ifndef KILN_LIBRARY_FUNCTION_H
#define KILN_LIBRARY_FUNCTION_H

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/version.h>
#if __has_include(<linux/unaligned.h>)
#include <linux/unaligned.h>
#else
#include <asm/unaligned.h>
#endif

#include "kiln/tree.h"

/* A wrapper's parameters. The first @prefix bytes at @src are associated data. */
#define MESSAGE const void *key, u8 *iv, const u8 *src, u8 *dst, size_t len, size_t prefix

/*
 * A wrapper that calls a library function. It returns 0 or a negative error, such as -EBADMSG for a
 * wrong tag.
 */
typedef int kiln_wrapper(MESSAGE);

/* A wrapper that calls a library function for two messages of the same length. */
typedef void kiln_pair_wrapper(const u8 *src1, const u8 *src2, u8 *dst1, u8 *dst2, size_t len);

/* A wrapper that returns the checksum as a number. */
typedef u64 kiln_checksum(const u8 *src, size_t len);

/* A function that converts the raw key into the form that the library function takes. */
typedef int kiln_prepare(void *key, const u8 *raw, size_t len);

struct kiln_function {
	const char *name;
	const char *alg;
	const char *op;
	enum kiln_library_kind kind;
	kiln_wrapper *call;
	kiln_pair_wrapper *pair;	/* set if a call takes two messages */
	kiln_checksum *checksum;	/* returns what @call stores; NULL if not provided */
	const void *symbol;	/* address of the function; NULL if this tree lacks it */
	kiln_prepare *prepare;	/* converts the key; NULL if the function takes the raw key */
	size_t prepared;	/* size in bytes of the converted key */
	unsigned short keys[KILN_LIBRARY_KEYS];	/* accepted key sizes in bytes, 0-terminated */
	unsigned short own_key;	/* key size, if it does not follow from the algorithm's name */
	unsigned short iv, prefix, tag, digest;
	unsigned int least, most, multiple;
	unsigned int flags;
	const char *judge;	/* another function that gives the same answers, or NULL */
};

extern const struct kiln_function kiln_hashes[], kiln_ciphers[], kiln_checksums[];
extern const size_t kiln_hash_count, kiln_cipher_count, kiln_checksum_count;

#define SINCE(a, b) (LINUX_VERSION_CODE >= KERNEL_VERSION(a, b, 0))
#define WEAK(function) extern typeof(function) function __attribute__((weak))
#define WRAPPER(name) static int kiln_##name(MESSAGE)
#define PREPARE(name) static int kiln_prepare_##name(void *key, const u8 *raw, size_t len)

/* Macros that begin a table entry. The rest of the entry describes what the function computes. */
#define FUNCTION(called) .name = #called, .call = kiln_##called, .symbol = called
/*
 * Begins an entry for a series of calls or for an inline function, neither of which has a symbol of
 * its own. @last is the last function in the series, or the function that the inline function
 * calls.
 */
#define SERIES(called, last) .name = #called, .call = kiln_##called, .symbol = last

#define DIGEST(algorithm, size) \
	.alg = algorithm, .op = "digest", .kind = KILN_LIBRARY_HASH, .digest = size
#define CIPHER(algorithm, way) .alg = algorithm, .op = way, .kind = KILN_LIBRARY_CIPHER
#define AEAD(algorithm, way, nonce) \
	.alg = algorithm, .op = way, .kind = KILN_LIBRARY_AEAD, .iv = nonce, .prefix = 16, .tag = 16
#define DERIVE(algorithm, size) \
	.alg = algorithm, .op = "derive", .kind = KILN_LIBRARY_AGREEMENT, .digest = size

#define PREPARED(how, type) .prepare = kiln_prepare_##how, .prepared = sizeof(type)
#define BLOCKS(size) .least = size, .multiple = size
#define AES_KEYS .keys = { 16, 24, 32 }

#endif
