/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The crypto API: algorithms by name, transforms of them, requests to these. Names, flags
 * and return values are Linux's.
 *
 * crypto/api.c APIs:
 *	crypto_register_skcipher, crypto_alloc_skcipher, crypto_free_skcipher
 *	crypto_skcipher_setkey, crypto_skcipher_encrypt, crypto_skcipher_decrypt
 *	crypto_wait_req		what a task does with an answer that comes later
 * crypto/walk.c APIs:
 *	skcipher_walk_first, skcipher_walk_done
 * crypto/queue.c APIs:
 *	crypto_enqueue_request, crypto_dequeue_request, crypto_get_backlog
 * crypto/cryptd.c APIs:
 *	cryptd_alloc_skcipher, cryptd_free_skcipher, cryptd_skcipher_child,
 *	cryptd_skcipher_queued
 * crypto/simd.c APIs:
 *	simd_register_skcipher
 * crypto/xts.c APIs:
 *	xts_register
 * crypto/border.c	what kiln.h has of all this
 */
#ifndef KILN_CRYPTO_H
#define KILN_CRYPTO_H

#include <kiln/cpu.h>
#include <kiln/kiln.h>

#define CRYPTO_MAX_ALG_NAME 64

/* Of an algorithm. */
enum {
	CRYPTO_ALG_ASYNC = 0x80,	/* may answer later */
	CRYPTO_ALG_INTERNAL = 0x2000,	/* for other algorithms only */
};

/* Of a request. */
enum {
	CRYPTO_TFM_REQ_MAY_SLEEP = 0x200,
	CRYPTO_TFM_REQ_MAY_BACKLOG = 0x400,
};

/* Of a transform. */
enum { CRYPTO_TFM_NEED_KEY = 1 };

/*
 * Which algorithms there are depends on what FPU sections can do: where softirqs may
 * find them taken, SIMD code is behind the simd helper, elsewhere it is called directly.
 */
enum crypto_model {
	CRYPTO_MODEL_HELPER = 1,
	CRYPTO_MODEL_DIRECT = 2,
	CRYPTO_MODEL_ALL = 3,
};

typedef void crypto_completion_t(void *data, int err);

struct crypto_skcipher;

/* The fields of Linux's, and its size: the simd helper copies it for each request. */
struct skcipher_request {
	u32 cryptlen;
	u8 *iv;
	struct scatterlist *src, *dst;
	struct skcipher_request *next, *prev;	/* in a queue */
	crypto_completion_t *complete;
	void *data;
	struct crypto_skcipher *tfm;
	u32 flags;
	u64 ctx[] __aligned(16);		/* crypto_skcipher_reqsize() bytes */
};

struct skcipher_alg {
	char name[CRYPTO_MAX_ALG_NAME];
	char driver_name[CRYPTO_MAX_ALG_NAME];
	u32 flags;
	u32 models;
	int priority;
	u32 tier;
	u32 ctxsize;
	u32 ivsize;
	u32 users;			/* transforms */
	int (*setkey)(struct crypto_skcipher *tfm, const u8 *key, u32 len);
	int (*encrypt)(struct skcipher_request *req);
	int (*decrypt)(struct skcipher_request *req);
	int (*init)(struct crypto_skcipher *tfm);
	void (*exit)(struct crypto_skcipher *tfm);
	const void *impl;
	struct skcipher_alg *next;
	bool instance;			/* of a template: freed with its last user */
};

struct crypto_skcipher {
	u32 flags;
	u32 reqsize;			/* of a request's ctx */
	struct skcipher_alg *alg;
	u64 ctx[] __aligned(64);
};

int crypto_register_skcipher(struct skcipher_alg *alg);
void crypto_model_set(u32 model);

/*
 * The algorithm of this driver name, or of the highest priority of those with this name.
 * Of the flags in @mask it must have exactly those in @type; internal ones must be asked
 * for. NULL and *@err if there is none.
 */
struct crypto_skcipher *crypto_alloc_skcipher(const char *name, u32 type, u32 mask,
					      int *err);
void crypto_free_skcipher(struct crypto_skcipher *tfm);

int crypto_skcipher_setkey(struct crypto_skcipher *tfm, const u8 *key, u32 len);
/*
 * 0, or -EINPROGRESS (or -EBUSY, if the request may be backlogged): the callback will
 * tell; or what is wrong with the request. -EDEADLK in a hardirq, where nobody may ask.
 */
int crypto_skcipher_encrypt(struct skcipher_request *req);
int crypto_skcipher_decrypt(struct skcipher_request *req);

static inline void *crypto_skcipher_ctx(struct crypto_skcipher *tfm)
{
	return tfm->ctx;
}

static inline u32 crypto_skcipher_reqsize(const struct crypto_skcipher *tfm)
{
	return tfm->reqsize;
}

static inline void skcipher_request_set_callback(struct skcipher_request *req, u32 flags,
						 crypto_completion_t *complete,
						 void *data)
{
	req->complete = complete;
	req->data = data;
	req->flags = flags;
}

static inline void skcipher_request_set_crypt(struct skcipher_request *req,
					      struct scatterlist *src,
					      struct scatterlist *dst, u32 cryptlen,
					      u8 *iv)
{
	req->src = src;
	req->dst = dst;
	req->cryptlen = cryptlen;
	req->iv = iv;
}

static inline void sg_init_one(struct scatterlist *sg, void *addr, u32 length)
{
	sg->addr = addr;
	sg->length = length;
	sg->last = true;
}

/* A task's wait for an answer. */
struct crypto_wait {
	struct task *task;
	int err;
	bool done;
};

void crypto_req_done(void *data, int err);
int crypto_wait_req(int err, struct crypto_wait *wait);

/*
 * Steps through a request's pieces: each has @nbytes at @src and @dst, whole blocks but
 * for the last step. What straddles pieces comes in a buffer of the walk's own.
 */
enum { WALK_BLOCK = 16, WALK_BOUNCE = 2 * WALK_BLOCK, WALK_PAGE = 4096 };

struct skcipher_walk {
	u8 *src, *dst;
	u32 nbytes;
	u32 total;		/* left, this step included */
	struct scatterlist *in, *out;
	u32 in_offset, out_offset;
	bool bounced;
	u8 buffer[WALK_BOUNCE] __aligned(16);
};

/* -EINVAL if the pieces are shorter than the request. */
int skcipher_walk_first(struct skcipher_walk *walk, const struct skcipher_request *req);
int skcipher_walk_done(struct skcipher_walk *walk);

int crypto_enqueue_request(struct crypto_queue *queue, struct skcipher_request *req);
struct skcipher_request *crypto_dequeue_request(struct crypto_queue *queue);
/* The first request that is beyond the limit and has not been told of its turn. */
struct skcipher_request *crypto_get_backlog(const struct crypto_queue *queue);

enum { CRYPTD_MAX_CPU_QLEN = 1000 };

/* The calling CPU's queue. */
void cryptd_start(void);
struct crypto_skcipher *cryptd_alloc_skcipher(const char *name, u32 type, u32 mask,
					      int *err);
void cryptd_free_skcipher(struct crypto_skcipher *tfm);
struct crypto_skcipher *cryptd_skcipher_child(struct crypto_skcipher *tfm);
bool cryptd_skcipher_queued(struct crypto_skcipher *tfm);
/* crypto_alloc_skcipher() of "cryptd(...)": an instance for it. */
struct skcipher_alg *cryptd_instance(const char *name, u32 type, u32 mask, int *err);

/* A wrapper for @inner, whose names begin with "__"; it has them without. */
int simd_register_skcipher(const struct skcipher_alg *inner);

int xts_register(void);

#endif
