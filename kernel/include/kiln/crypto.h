/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The crypto API: algorithms by name, transforms of them, requests to these. Names, flags
 * and return values are Linux's. What crypto/border.c exports is in abi/crypto.h.
 */
#ifndef KILN_CRYPTO_H
#define KILN_CRYPTO_H

#include <kiln/abi/cipher.h>
#include <kiln/abi/crypto.h>
#include <kiln/budget.h>
#include <kiln/cpu.h>
#include <kiln/fpu.h>

#define CRYPTO_MAX_ALG_NAME 64

/* Of an algorithm: what it is, and how it may be asked. */
enum {
	CRYPTO_ALG_TYPE_AEAD = 0x3,
	CRYPTO_ALG_TYPE_SKCIPHER = 0x5,
	CRYPTO_ALG_TYPE_SHASH = 0xe,
	CRYPTO_ALG_TYPE_MASK = 0xf,
	CRYPTO_ALG_ASYNC = 0x80,	/* may answer later */
	CRYPTO_ALG_INTERNAL = 0x2000,	/* for other algorithms only */
};

/* Of a request. */
enum {
	CRYPTO_TFM_REQ_MAY_SLEEP = 0x200,
	CRYPTO_TFM_REQ_MAY_BACKLOG = 0x400,
	/*
	 * @data is the request that this one was made for. While this one is queued, it holds
	 * that request's transform, too: the callback needs it.
	 */
	CRYPTO_TFM_REQ_HOLD_PARENT = 0x10000,
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

struct crypto_tfm;

/*
 * To a skcipher or to an AEAD: the fields that Linux's two structures have, and their
 * size, since the simd helper copies one for each request. An AEAD's associated data are
 * the first @assoclen bytes of the pieces; a tag is behind the text, and counts in
 * @cryptlen when decrypting.
 */
struct crypto_request {
	u32 cryptlen;
	u32 assoclen;
	u8 *iv;
	struct scatterlist *src, *dst;
	struct crypto_request *next, *prev;	/* in a queue */
	crypto_completion_t *complete;
	void *data;
	struct crypto_tfm *tfm;
	u32 flags;
	u64 ctx[] __aligned(16);		/* crypto_tfm_reqsize() bytes */
};

_Static_assert(sizeof(struct crypto_request) == 80, "as large as Linux's");

struct crypto_alg {
	char name[CRYPTO_MAX_ALG_NAME];
	char driver_name[CRYPTO_MAX_ALG_NAME];
	u32 flags;
	u32 models;
	int priority;
	u32 tier;
	u32 ctxsize;
	u32 ivsize;
	u32 maxauthsize;		/* of an AEAD */
	u32 form;			/* enum crypto_form */
	u32 users;			/* transforms, and instances with this in inner[] */
	int (*setkey)(struct crypto_tfm *tfm, const u8 *key, u32 len);
	int (*setauthsize)(struct crypto_tfm *tfm, u32 authsize);
	int (*encrypt)(struct crypto_request *req);
	int (*decrypt)(struct crypto_request *req);
	int (*init)(struct crypto_tfm *tfm);
	void (*exit)(struct crypto_tfm *tfm);
	const void *impl;
	struct fpu_budget *budget;	/* of sections, both directions; none without SIMD */
	u32 shortest;			/* of a skcipher: bytes of a message, 1 if it may be empty */
	u32 partial;			/* of a skcipher: bits of a length that whole blocks leave clear */
	const u32 *min_bytes;		/* of a hash: fewer go to the fallback */
	const void *fallback;		/* of a hash: where SIMD is not usable */
	struct crypto_alg *next;
	struct crypto_alg *inner[2];	/* what an instance is made of, and a user of */
	bool instance;			/* of a template: freed with its last user */
};

/* What an AEAD requires of its requests besides the lengths. */
enum crypto_form {
	CRYPTO_FORM_PLAIN,
	CRYPTO_FORM_IPSEC,	/* 8 or 12 bytes of associated data, then the IV */
	CRYPTO_FORM_CCM,	/* an IV that begins with the width of the length */
};

struct crypto_tfm {
	u32 flags;
	u32 reqsize;			/* of a request's ctx */
	u32 authsize;			/* of an AEAD's tags */
	u32 refcnt;			/* its owner, and requests in a queue */
	struct crypto_alg *alg;
	u64 ctx[] __aligned(64);
};

/* crypto/api.c */
int crypto_register_alg(struct crypto_alg *alg);

/*
 * The algorithm of this driver name, or of the highest priority of those with this name.
 * Of the flags in @mask it must have exactly those in @type; internal ones must be asked
 * for. The kind of algorithm is among these flags. NULL and *@err if there is none.
 */
struct crypto_tfm *crypto_alloc_tfm(const char *name, u32 type, u32 mask, int *err);
/* Another transform of an algorithm that has a user. */
struct crypto_tfm *crypto_spawn_tfm(struct crypto_alg *alg, int *err);
/* The owner's reference. The transform lives until the requests queued on it are answered. */
void crypto_free_tfm(struct crypto_tfm *tfm);

int crypto_setkey(struct crypto_tfm *tfm, const u8 *key, u32 len);
int crypto_aead_setauthsize(struct crypto_tfm *tfm, u32 authsize);
/*
 * 0: done. -EINPROGRESS, or -EBUSY if the request was backlogged: the callback gets the result.
 * -ENOSPC: the queue is full. Anything else is what is wrong with the request; -EDEADLK in a
 * hardirq or an NMI, where requests are not allowed.
 */
int crypto_encrypt(struct crypto_request *req);
int crypto_decrypt(struct crypto_request *req);

static inline void *crypto_tfm_ctx(struct crypto_tfm *tfm)
{
	return tfm->ctx;
}

/* A reference for a queued request, which crypto_free_tfm() drops. */
static inline void crypto_tfm_get(struct crypto_tfm *tfm)
{
	__atomic_add_fetch(&tfm->refcnt, 1, __ATOMIC_RELAXED);
}

static inline u32 crypto_tfm_reqsize(const struct crypto_tfm *tfm)
{
	return tfm->reqsize;
}

/* Allocates a request on @tfm with @more bytes behind its ctx. Returns NULL if memory is exhausted. */
struct crypto_request *crypto_request_alloc(struct crypto_tfm *tfm, size_t more);

static inline void crypto_request_set_callback(struct crypto_request *req, u32 flags,
					       crypto_completion_t *complete, void *data)
{
	req->complete = complete;
	req->data = data;
	req->flags = flags;
}

static inline void crypto_request_set_crypt(struct crypto_request *req,
					    struct scatterlist *src, struct scatterlist *dst,
					    u32 cryptlen, u8 *iv)
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
	sg->chain = false;
}

/* What follows a piece that is not the last. */
static inline struct scatterlist *sg_next(struct scatterlist *sg)
{
	sg++;
	return sg->chain ? (struct scatterlist *)sg->addr : sg;
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
 * crypto/walk.c: steps through a request's pieces. Each step has @nbytes at @src and @dst, whole
 * blocks except for the last step. Blocks that straddle pieces are copied to the walk's own buffer.
 */
enum { WALK_BLOCK = 16, WALK_MAX_BLOCK = 64, WALK_PAGE = 4096 };

struct skcipher_walk {
	u8 *src, *dst;
	u32 nbytes;
	u32 total;		/* left, this step included */
	u32 block;
	struct scatterlist *in, *out;
	u32 in_offset, out_offset;
	bool bounced;
	u8 buffer[2 * WALK_MAX_BLOCK] __aligned(16);
};

/*
 * Of @len bytes behind the associated data, in blocks of @block bytes. -EINVAL if the pieces
 * are shorter than that.
 */
int skcipher_walk_text(struct skcipher_walk *walk, const struct crypto_request *req,
		       u32 len, u32 block);
/* While @total is not 0: a step of at most @step bytes, and at least a block. */
void skcipher_walk_next(struct skcipher_walk *walk, u32 step);
void skcipher_walk_done(struct skcipher_walk *walk);

/*
 * Whether the pieces have @n bytes. The lengths of a request are u32, but their sum may not fit
 * in one.
 */
bool scatterwalk_holds(struct scatterlist *sg, u64 n);
/* Move @n bytes between @buffer and the pieces behind their first @skip bytes. */
void scatterwalk_copy(u8 *buffer, struct scatterlist *sg, u64 skip, u32 n, bool out);
/* Copy the first @n bytes of the pieces at @src to those at @dst. */
void scatterwalk_copy_pieces(struct scatterlist *dst, struct scatterlist *src, u64 n);
/* Where @n bytes behind the first @skip are, if they are in one piece; else NULL. */
u8 *scatterwalk_piece(struct scatterlist *sg, u64 skip, u32 n);
/* The pieces behind their first @skip bytes; @room is for what begins inside of one. */
struct scatterlist *scatterwalk_ffwd(struct scatterlist room[2], struct scatterlist *sg,
				     u64 skip);
/* The bytes of the next @left that are contiguous, from @at on; and step over them. */
u32 scatterwalk_next(struct scatterlist **sg, u32 *offset, u64 left, u8 **at);

/* crypto/queue.c: requests wait; beyond @max_qlen only those with CRYPTO_TFM_REQ_MAY_BACKLOG. */
struct crypto_queue {
	struct crypto_request *head, *tail;
	struct crypto_request *backlog;	/* the first that has not got -EINPROGRESS yet */
	u32 qlen, max_qlen;
};

int crypto_enqueue_request(struct crypto_queue *queue, struct crypto_request *req);
struct crypto_request *crypto_dequeue_request(struct crypto_queue *queue);
/* crypto/cryptd.c */
enum { CRYPTD_MAX_CPU_QLEN = 1000 };

/* The number of requests in the calling CPU's queue. */
u32 cryptd_queue_length(void);
struct crypto_tfm *cryptd_alloc(const char *name, u32 type, u32 mask, int *err);
bool cryptd_queued(struct crypto_tfm *tfm);
/*
 * crypto/cryptd.c, seqiv.c, authenc.c: for crypto_alloc_tfm(), an instance of a template for this
 * name. NULL, with -ENOENT if the name is not one of the template's.
 */
struct crypto_alg *cryptd_instance(const char *name, u32 type, u32 mask, int *err);
struct crypto_alg *seqiv_instance(const char *name, u32 type, u32 mask, int *err);
struct crypto_alg *authenc_instance(const char *name, u32 type, u32 mask, int *err);

/* crypto/name.c: "@outer(@first)" or "@outer(@first,@second)" to @to; 0, or -ENAMETOOLONG. */
int crypto_name_make(char to[CRYPTO_MAX_ALG_NAME], const char *outer, const char *first,
		     const char *second);
/* The reverse; false if @name is not of this form. @second NULL: there is to be none. */
bool crypto_name_split(const char *name, const char *outer,
		       char first[CRYPTO_MAX_ALG_NAME], char second[CRYPTO_MAX_ALG_NAME]);

/* Memory for an algorithm of these names with @prefix before both; NULL: there is none. */
struct crypto_alg *crypto_alg_new(const char *name, const char *driver, const char *prefix);
/* Register it, or free it. */
int crypto_alg_add(struct crypto_alg *alg);
/*
 * A template's algorithm with its names, and a user of @first and, unless NULL, @second, which it is
 * made of. All else is copied from @first; the template changes what differs.
 */
struct crypto_alg *crypto_instance(struct crypto_alg *first, const char *outer,
				   struct crypto_alg *second, int *err);
/* Another user of an algorithm that has one. */
void crypto_alg_get(struct crypto_alg *alg);
/* Of an instance that is not registered, or no longer. */
void crypto_instance_free(struct crypto_alg *alg);

/* What is asked of a template's inner algorithm: no more than of the template. */
static inline u32 crypto_inherited_mask(u32 type, u32 mask)
{
	return mask & ~type & CRYPTO_ALG_ASYNC;
}

/* crypto/shash.c: a hash in progress. Its ctx can be copied; any tier of the algorithm continues it. */
struct shash_desc {
	struct crypto_tfm *tfm;
	u8 ctx[KILN_MAX_STATE] __aligned(64);
};

/* 0, or -ENOKEY. In any context. */
int shash_init(struct shash_desc *desc);
int shash_update(struct shash_desc *desc, const u8 *data, u32 len);
int shash_final(struct shash_desc *desc, u8 *out);
int shash_digest(struct crypto_tfm *tfm, const u8 *data, u32 len, u8 *out);
/* The first @len bytes of several pieces. -EINVAL if they have fewer. */
int shash_digest_pieces(struct crypto_tfm *tfm, struct scatterlist *sg, u64 len, u8 *out);

/* The same; a message in the first piece is one call, as in Linux's ahash around an shash. */
static inline int shash_digest_sg(struct crypto_tfm *tfm, struct scatterlist *sg, u64 len,
				  u8 *out)
{
	if (likely(sg->length >= len))
		return shash_digest(tfm, sg->addr, len, out);
	return shash_digest_pieces(tfm, sg, len, out);
}

/* crypto_shash_statesize() bytes */
int shash_export(const struct shash_desc *desc, void *out);
/* -EINVAL if no message leads to such a state; the state of @desc is then wiped. */
int shash_import(struct shash_desc *desc, const void *in);
u32 shash_digestsize(const struct crypto_tfm *tfm);
u32 shash_statesize(const struct crypto_tfm *tfm);

/* Whether SIMD code may run in this context; otherwise a request needs cryptd or scalar code. */
static __always_inline bool crypto_simd_usable(void)
{
	return irq_fpu_usable();
}

/*
 * Templates around one algorithm: the context of their transforms begins with the inner transform,
 * to which these pass everything on.
 */
static inline struct crypto_tfm *crypto_tfm_child(const struct crypto_tfm *tfm)
{
	return *(struct crypto_tfm *const *)tfm->ctx;
}

/* Spawns the inner transform; a request's ctx holds @size bytes and then the inner request's. */
int crypto_child_init(struct crypto_tfm *tfm, u32 size);
void crypto_child_ops(struct crypto_alg *alg, u32 ctxsize, int (*init)(struct crypto_tfm *tfm),
		      int (*encrypt)(struct crypto_request *req),
		      int (*decrypt)(struct crypto_request *req));

/* crypto/simd.c: a wrapper for @inner, whose names begin with "__"; it has them without. */
int simd_register(const struct crypto_alg *inner);

/* crypto/register.c: all of ciphers/list.c. */
int impls_register(void);

/*
 * The operations of a type of algorithm, from its crypt(request, simd, decrypt), which is inlined:
 * encrypt_simd, encrypt_scalar and their inverses.
 */
#define CRYPTO_ENTRY_POINTS(crypt)                                                    \
	CRYPTO_ENTRY_POINT(encrypt_simd, crypt, true, false)                          \
	CRYPTO_ENTRY_POINT(decrypt_simd, crypt, true, true)                           \
	CRYPTO_ENTRY_POINT(encrypt_scalar, crypt, false, false)                       \
	CRYPTO_ENTRY_POINT(decrypt_scalar, crypt, false, true)
#define CRYPTO_ENTRY_POINT(name, crypt, simd, decrypt)                                \
static int name(struct crypto_request *req)                                           \
{                                                                                     \
	return crypt(req, simd, decrypt);                                             \
}

/* crypto/aead.c, crypto/skcipher.c, crypto/shash.c: an algorithm's functions for its implementation. */
void aead_ops(struct crypto_alg *alg, const struct kiln_impl *impl);
void skcipher_ops(struct crypto_alg *alg, const struct kiln_impl *impl);
void shash_ops(struct crypto_alg *alg, const struct kiln_impl *impl);

#endif
