/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The border of crypto/.
 */
#ifndef KILN_ABI_CRYPTO_H
#define KILN_ABI_CRYPTO_H

#include <kiln/abi/context.h>
#include <kiln/abi/submission.h>
#include <kiln/types.h>

/* Pieces of memory; the last is marked. A chain is no piece: the next ones are at @addr. */
struct scatterlist {
	u8 *addr;
	u32 length;
	bool last;
	bool chain;
};

/*
 * crypto/border.c: the crypto API (kiln/crypto.h). Functions that take a void pointer are
 * for kiln_gate().
 */
KILN_EXPORT int kiln_crypto_init(void);
/* Which algorithms there are: enum crypto_model. */
KILN_EXPORT void kiln_crypto_model(u32 model);

struct kiln_tfm {
	const char *name;	/* of the algorithm or of the driver */
	u32 type, mask;
	void *tfm;		/* NULL if there is none */
	const char *driver;	/* that it turned out to be */
	u32 flags;		/* of its algorithm */
	int priority;
	u32 ivsize;
	int err;
};

KILN_EXPORT u64 kiln_crypto_open(void *tfm);
KILN_EXPORT u64 kiln_crypto_close(void *tfm);

struct kiln_setkey {
	void *tfm;
	const u8 *key;
	u32 len;
	int err;
};

KILN_EXPORT u64 kiln_crypto_setkey(void *setkey);
/* The same structure: @len bytes for tags. */
KILN_EXPORT u64 kiln_crypto_setauthsize(void *setkey);
/* crypto/seqiv.c: where its salts begin. */
KILN_EXPORT void kiln_crypto_seed(u64 seed);

/* One request, made in a context (enum kiln_context); the task waits for its answer. */
struct kiln_request {
	void *tfm;
	struct scatterlist *src, *dst;
	u8 *iv;
	u32 assoclen;		/* of an AEAD's, at the beginning of the pieces */
	u32 len;		/* behind that, with the tag when decrypting */
	bool decrypt;
	u32 context;
	int submitted;		/* what the call returned */
	int result;		/* what it came to */
};

KILN_EXPORT u64 kiln_crypto_request(void *request);

/* One message to a hash, in a context (enum kiln_context): in pieces, or in one call if there are none. */
struct kiln_digest {
	void *tfm;
	const u8 *data;
	u32 len;
	const u32 *piece;	/* their lengths */
	u32 pieces;
	bool reimport;		/* export the state after each piece, go on with the import */
	const u8 *state;	/* NULL, or a state to be imported before the first piece */
	u8 *out;
	u32 context;
	int err;
};

KILN_EXPORT u64 kiln_crypto_digest(void *digest);

KILN_EXPORT extern const struct kiln_request_ops kiln_request_ops;

/* The crypto API as an operation of a load: ctx of kiln_crypto_op_crypt(). */
struct kiln_crypto_op {
	void *tfm;
	u32 slots;
	void **request;		/* one for each slot; by kiln_crypto_op_open() */
};

/* For kiln_gate(): requests for the slots, non-zero if there is no memory; and no more. */
KILN_EXPORT u64 kiln_crypto_op_open(void *op);
KILN_EXPORT u64 kiln_crypto_op_close(void *op);
KILN_EXPORT int kiln_crypto_op_crypt(void *op, u32 slot, u8 *dst, const u8 *src,
				     size_t len, const u8 *iv, bool decrypt,
				     void (*done)(void *data, int answer), void *data);

/* Controls: rules of cryptd that are broken from now on. */
enum kiln_cryptd_broken {
	KILN_CRYPTD_NO_LIMIT = 1,	/* queues without end */
	KILN_CRYPTD_NO_BACKLOG = 2,	/* nobody may be backlogged */
	KILN_CRYPTD_UNCOUNTED = 4,	/* requests queued are not known of */
	KILN_CRYPTD_LATE_FIRST = 8,	/* what came last is served first */
};

KILN_EXPORT void kiln_cryptd_break(u32 broken);

#endif
