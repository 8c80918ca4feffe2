/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The host's interface to crypto/ (kiln/crypto.h). Functions with a void pointer argument are
 * called through kiln_gate().
 */
#ifndef KILN_ABI_CRYPTO_H
#define KILN_ABI_CRYPTO_H

#include <kiln/abi/context.h>
#include <kiln/abi/submission.h>
#include <kiln/types.h>

/* One entry in a list of memory areas. With @chain, the list continues at @addr. */
struct scatterlist {
	u8 *addr;
	u32 length;
	bool last;
	bool chain;
};

/* crypto/border.c: registers all algorithms. Returns 0 or a negative errno value. */
KILN_EXPORT int kiln_crypto_init(void);
/* Selects the set of algorithms that can be found by name: enum crypto_model. */
KILN_EXPORT void kiln_crypto_model(u32 model);

struct kiln_tfm {
	const char *name;	/* algorithm name or driver name */
	u32 type, mask;
	void *tfm;		/* out: NULL if opening it failed */
	const char *driver;	/* out: the chosen driver; its properties follow */
	u32 flags;
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
/* Sets the tag length: takes a struct kiln_setkey, with the tag length in bytes in @len. */
KILN_EXPORT u64 kiln_crypto_setauthsize(void *setkey);
/* crypto/seqiv.c: sets the seed for the salts of transforms opened after this call. */
KILN_EXPORT void kiln_crypto_seed(u64 seed);

/* One request, made in a context (enum kiln_context). The task waits until it is complete. */
struct kiln_request {
	void *tfm;
	struct scatterlist *src, *dst;
	u8 *iv;
	u32 assoclen;		/* bytes of associated data at the start of the list */
	u32 len;		/* bytes after the associated data, with the tag when decrypting */
	bool decrypt;
	u32 context;
	int submitted;		/* out: return value of the call */
	int result;		/* out: final result of the request */
};

KILN_EXPORT u64 kiln_crypto_request(void *request);

/*
 * A message to be hashed in a context (enum kiln_context): with one call if @pieces is 0, otherwise
 * piece by piece.
 */
struct kiln_digest {
	void *tfm;
	const u8 *data;
	u32 len;
	const u32 *piece;	/* lengths of the pieces in bytes */
	u32 pieces;
	bool reimport;		/* export the state after each piece and import it again */
	const u8 *state;	/* if not NULL, imported before the first piece */
	u8 *out;
	u32 context;
	int err;
};

KILN_EXPORT u64 kiln_crypto_digest(void *digest);

KILN_EXPORT extern const struct kiln_request_ops kiln_request_ops;

/*
 * Crypto API requests as the operations of a load: struct kiln_op (abi/load.h) points to this
 * structure with @ctx.
 */
struct kiln_crypto_op {
	void *tfm;
	u32 slots;
	void **request;		/* one request per slot, allocated by kiln_crypto_op_open() */
};

/* Allocates the requests. Returns non-zero if out of memory. kiln_crypto_op_close() frees them. */
KILN_EXPORT u64 kiln_crypto_op_open(void *op);
KILN_EXPORT u64 kiln_crypto_op_close(void *op);
KILN_EXPORT int kiln_crypto_op_crypt(void *op, u32 slot, u8 *dst, const u8 *src,
				     size_t len, const u8 *iv, bool decrypt,
				     void (*done)(void *data, int answer), void *data);

/* Fault injection for tests: each bit makes cryptd break one of its rules. */
enum kiln_cryptd_broken {
	KILN_CRYPTD_NO_LIMIT = 1,	/* queues have no limit */
	KILN_CRYPTD_NO_BACKLOG = 2,	/* requests are never backlogged */
	KILN_CRYPTD_UNCOUNTED = 4,	/* queued requests hold no references to transforms */
	KILN_CRYPTD_LATE_FIRST = 8,	/* the newest request is served first */
};

KILN_EXPORT void kiln_cryptd_break(u32 broken);

#endif
