/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The crypto API: looks up algorithms by name, creates transforms of them, and processes requests.
 * Names, flags and return values are Linux's. abi/crypto.h has the host's interface
 * (crypto/border.c).
 */
#ifndef KILN_CRYPTO_H
#define KILN_CRYPTO_H

#include <kiln/abi/cipher.h>
#include <kiln/abi/crypto.h>
#include <kiln/budget.h>
#include <kiln/cpu.h>
#include <kiln/fpu.h>

#define CRYPTO_MAX_ALG_NAME 64

/* Flags of an algorithm: its type and how it may be called. */
enum {
	CRYPTO_ALG_TYPE_AEAD = 0x3,
	CRYPTO_ALG_TYPE_SKCIPHER = 0x5,
	CRYPTO_ALG_TYPE_SHASH = 0xe,
	CRYPTO_ALG_TYPE_MASK = 0xf,
	CRYPTO_ALG_ASYNC = 0x80,	/* requests may complete asynchronously */
	CRYPTO_ALG_INTERNAL = 0x2000,	/* may be used only by other algorithms */
};

/* Flags of a request. */
enum {
	CRYPTO_TFM_REQ_MAY_SLEEP = 0x200,
	CRYPTO_TFM_REQ_MAY_BACKLOG = 0x400,
	/*
	 * @data is the request that this one serves. While this one is queued, it also holds a
	 * reference to that request's transform, which the callback needs.
	 */
	CRYPTO_TFM_REQ_HOLD_PARENT = 0x10000,
};

/* Flags of a transform. */
enum { CRYPTO_TFM_NEED_KEY = 1 };

/*
 * Which drivers can be found depends on the FPU policy. If softirqs may find the FPU in use, SIMD
 * code is reached through the simd helper; otherwise it is called directly.
 */
enum crypto_model {
	CRYPTO_MODEL_HELPER = 1,
	CRYPTO_MODEL_DIRECT = 2,
	CRYPTO_MODEL_ALL = 3,
};

typedef void crypto_completion_t(void *data, int err);

struct crypto_tfm;

/*
 * A request to a skcipher or an AEAD. It has the fields of Linux's two structures and their size,
 * because the simd helper copies one per request. The first @assoclen bytes of the scatterlist are
 * an AEAD's associated data. The tag follows the text and is included in @cryptlen when decrypting.
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
	u32 maxauthsize;		/* AEAD only */
	u32 form;			/* enum crypto_form */
	u32 users;			/* transforms, and instances that have this algorithm in inner[] */
	int (*setkey)(struct crypto_tfm *tfm, const u8 *key, u32 len);
	int (*setauthsize)(struct crypto_tfm *tfm, u32 authsize);
	int (*encrypt)(struct crypto_request *req);
	int (*decrypt)(struct crypto_request *req);
	int (*init)(struct crypto_tfm *tfm);
	void (*exit)(struct crypto_tfm *tfm);
	const void *impl;
	struct fpu_budget *budget;	/* section budgets, encryption and decryption; NULL without SIMD */
	u32 shortest;			/* skcipher: minimum message length in bytes; 1 if it may be empty */
	u32 partial;			/* skcipher: mask of the length bits that must be 0 for whole blocks */
	const u32 *min_bytes;		/* hash: shorter data goes to the fallback */
	const void *fallback;		/* hash: used where SIMD is not usable */
	struct crypto_alg *next;
	struct crypto_alg *inner[2];	/* algorithms that an instance is built from; it counts as a user of each */
	bool instance;			/* instance of a template, freed when its last user is gone */
};

/* What an AEAD requires of its requests, besides valid lengths. */
enum crypto_form {
	CRYPTO_FORM_PLAIN,
	CRYPTO_FORM_IPSEC,	/* 8 or 12 bytes of associated data, then the IV */
	CRYPTO_FORM_CCM,	/* first byte of the IV is the width of the length field minus 1 */
};

struct crypto_tfm {
	u32 flags;
	u32 reqsize;			/* size of a request's ctx */
	u32 authsize;			/* AEAD: tag length */
	u32 refcnt;			/* references held by the owner and by queued requests */
	struct crypto_alg *alg;
	u64 ctx[] __aligned(64);
};

/* crypto/api.c */
int crypto_register_alg(struct crypto_alg *alg);

/*
 * Finds the algorithm with this driver name, or else the one of this name that has the highest
 * priority, and opens a transform. The flags of the algorithm must equal @type in all bits of
 * @mask; they include the type of algorithm. Internal algorithms are found only if @type or @mask
 * asks for them. Returns NULL and sets *@err if it fails.
 */
struct crypto_tfm *crypto_alloc_tfm(const char *name, u32 type, u32 mask, int *err);
/* Opens another transform of an algorithm that already has a user. */
struct crypto_tfm *crypto_spawn_tfm(struct crypto_alg *alg, int *err);
/*
 * Drops a reference. The transform is freed when its owner and all requests queued on it have
 * dropped theirs.
 */
void crypto_free_tfm(struct crypto_tfm *tfm);

int crypto_setkey(struct crypto_tfm *tfm, const u8 *key, u32 len);
int crypto_aead_setauthsize(struct crypto_tfm *tfm, u32 authsize);
/*
 * Returns 0 if the request is done; -EINPROGRESS, or -EBUSY if it was backlogged, if the callback
 * will get the result; -ENOSPC if the queue is full; -EDEADLK in a hardirq or an NMI, where
 * requests are not allowed. Any other value says what is wrong with the request.
 */
int crypto_encrypt(struct crypto_request *req);
int crypto_decrypt(struct crypto_request *req);

static inline void *crypto_tfm_ctx(struct crypto_tfm *tfm)
{
	return tfm->ctx;
}

/* Takes a reference for a queued request; crypto_free_tfm() drops it. */
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

/* The entry after @sg, which must not be the last. */
static inline struct scatterlist *sg_next(struct scatterlist *sg)
{
	sg++;
	return sg->chain ? (struct scatterlist *)sg->addr : sg;
}

/* For a task that waits for the completion of a request. */
struct crypto_wait {
	struct task *task;
	int err;
	bool done;
};

void crypto_req_done(void *data, int err);
int crypto_wait_req(int err, struct crypto_wait *wait);

/*
 * crypto/walk.c: walks through the scatterlists of a request. Each step has @nbytes at @src and
 * @dst; all steps but the last have whole blocks. Blocks that straddle entries are copied to the
 * walk's own buffer.
 */
enum { WALK_BLOCK = 16, WALK_MAX_BLOCK = 64, WALK_PAGE = 4096 };

struct skcipher_walk {
	u8 *src, *dst;
	u32 nbytes;
	u32 total;		/* bytes left, including this step */
	u32 block;
	struct scatterlist *in, *out;
	u32 in_offset, out_offset;
	bool bounced;
	u8 buffer[2 * WALK_MAX_BLOCK] __aligned(16);
};

/*
 * Walks the @len bytes that follow the associated data, in blocks of @block bytes. Returns -EINVAL
 * if the scatterlists are shorter than that.
 */
int skcipher_walk_text(struct skcipher_walk *walk, const struct crypto_request *req,
		       u32 len, u32 block);
/* Starts a step of at most @step bytes, but at least one block. Call it while @total is not 0. */
void skcipher_walk_next(struct skcipher_walk *walk, u32 step);
void skcipher_walk_done(struct skcipher_walk *walk);

/*
 * Whether the list has at least @n bytes. The lengths of a request are u32, but their sum may not
 * fit in 32 bits.
 */
bool scatterwalk_holds(struct scatterlist *sg, u64 n);
/*
 * Copies @n bytes between @buffer and the list, starting at offset @skip; @out: from @buffer to the
 * list.
 */
void scatterwalk_copy(u8 *buffer, struct scatterlist *sg, u64 skip, u32 n, bool out);
/* Copies the first @n bytes of the list @src to the list @dst. */
void scatterwalk_copy_pieces(struct scatterlist *dst, struct scatterlist *src, u64 n);
/* The address of the @n bytes at offset @skip if they are contiguous; otherwise NULL. */
u8 *scatterwalk_piece(struct scatterlist *sg, u64 skip, u32 n);
/* The list from offset @skip on. @room is used if that offset is inside an entry. */
struct scatterlist *scatterwalk_ffwd(struct scatterlist room[2], struct scatterlist *sg,
				     u64 skip);
/*
 * Returns how many of the next @left bytes are contiguous, sets *@at to their address, and steps
 * over them.
 */
u32 scatterwalk_next(struct scatterlist **sg, u32 *offset, u64 left, u8 **at);

/*
 * crypto/queue.c: a queue of requests. Beyond @max_qlen it accepts only requests with
 * CRYPTO_TFM_REQ_MAY_BACKLOG.
 */
struct crypto_queue {
	struct crypto_request *head, *tail;
	struct crypto_request *backlog;	/* the first backlogged request that has not got -EINPROGRESS yet */
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
 * crypto/cryptd.c, seqiv.c, authenc.c: create the instance of the template that @name asks for, for
 * crypto_alloc_tfm(). Return NULL with -ENOENT if @name does not use the template.
 */
struct crypto_alg *cryptd_instance(const char *name, u32 type, u32 mask, int *err);
struct crypto_alg *seqiv_instance(const char *name, u32 type, u32 mask, int *err);
struct crypto_alg *authenc_instance(const char *name, u32 type, u32 mask, int *err);

/*
 * crypto/name.c: writes "@outer(@first)" or "@outer(@first,@second)" to @to. Returns 0 or
 * -ENAMETOOLONG.
 */
int crypto_name_make(char to[CRYPTO_MAX_ALG_NAME], const char *outer, const char *first,
		     const char *second);
/*
 * Splits such a name; returns false if @name does not have this form. With a NULL @second it must
 * have one argument.
 */
bool crypto_name_split(const char *name, const char *outer,
		       char first[CRYPTO_MAX_ALG_NAME], char second[CRYPTO_MAX_ALG_NAME]);

/*
 * Allocates an algorithm with these names, both prefixed with @prefix; NULL if memory is
 * exhausted.
 */
struct crypto_alg *crypto_alg_new(const char *name, const char *driver, const char *prefix);
/* Registers the algorithm, or frees it on failure. */
int crypto_alg_add(struct crypto_alg *alg);
/*
 * Creates an instance of the template @outer, as a user of @first and, unless NULL, @second. All
 * but the names is copied from @first; the template changes what differs.
 */
struct crypto_alg *crypto_instance(struct crypto_alg *first, const char *outer,
				   struct crypto_alg *second, int *err);
/* Adds a user to an algorithm that already has one. */
void crypto_alg_get(struct crypto_alg *alg);
/* Frees an instance that is not, or no longer, registered. */
void crypto_instance_free(struct crypto_alg *alg);

/* The mask for a template's inner algorithm: it must be synchronous if the template must be. */
static inline u32 crypto_inherited_mask(u32 type, u32 mask)
{
	return mask & ~type & CRYPTO_ALG_ASYNC;
}

/*
 * crypto/shash.c: a hash in progress. Its ctx can be copied, and any tier of the algorithm can continue
 * from it.
 */
struct shash_desc {
	struct crypto_tfm *tfm;
	u8 ctx[KILN_MAX_STATE] __aligned(64);
};

/* Returns 0 or -ENOKEY. All these functions may be called in any context. */
int shash_init(struct shash_desc *desc);
int shash_update(struct shash_desc *desc, const u8 *data, u32 len);
int shash_final(struct shash_desc *desc, u8 *out);
int shash_digest(struct crypto_tfm *tfm, const u8 *data, u32 len, u8 *out);
/* Hashes the first @len bytes of a scatterlist. Returns -EINVAL if it is shorter. */
int shash_digest_pieces(struct crypto_tfm *tfm, struct scatterlist *sg, u64 len, u8 *out);

/*
 * The same, but a message that is contiguous takes a single call, as in Linux's ahash around an
 * shash.
 */
static inline int shash_digest_sg(struct crypto_tfm *tfm, struct scatterlist *sg, u64 len,
				  u8 *out)
{
	if (likely(sg->length >= len))
		return shash_digest(tfm, sg->addr, len, out);
	return shash_digest_pieces(tfm, sg, len, out);
}

/* Writes crypto_shash_statesize() bytes. */
int shash_export(const struct shash_desc *desc, void *out);
/* Returns -EINVAL and wipes the state of @desc if no message leads to the imported state. */
int shash_import(struct shash_desc *desc, const void *in);
u32 shash_digestsize(const struct crypto_tfm *tfm);
u32 shash_statesize(const struct crypto_tfm *tfm);

/* Whether SIMD code may run in this context; otherwise a request needs cryptd or scalar code. */
static __always_inline bool crypto_simd_usable(void)
{
	return irq_fpu_usable();
}

/*
 * For templates around one algorithm: the context of their transforms begins with a pointer to the
 * inner transform, which gets all requests.
 */
static inline struct crypto_tfm *crypto_tfm_child(const struct crypto_tfm *tfm)
{
	return *(struct crypto_tfm *const *)tfm->ctx;
}

/* Opens the inner transform. A request's ctx holds @size bytes, followed by the inner request. */
int crypto_child_init(struct crypto_tfm *tfm, u32 size);
void crypto_child_ops(struct crypto_alg *alg, u32 ctxsize, int (*init)(struct crypto_tfm *tfm),
		      int (*encrypt)(struct crypto_request *req),
		      int (*decrypt)(struct crypto_request *req));

/*
 * crypto/simd.c: registers a wrapper for @inner. The names of @inner begin with "__"; the wrapper's
 * names omit that.
 */
int simd_register(const struct crypto_alg *inner);

/* crypto/register.c: registers all implementations of ciphers/list.c. */
int impls_register(void);

/*
 * Defines encrypt_simd, encrypt_scalar, decrypt_simd and decrypt_scalar by inlining an algorithm
 * type's crypt(request, simd, decrypt).
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

/*
 * crypto/aead.c, skcipher.c and shash.c: set the algorithm's functions to those for an
 * implementation.
 */
void aead_ops(struct crypto_alg *alg, const struct kiln_impl *impl);
void skcipher_ops(struct crypto_alg *alg, const struct kiln_impl *impl);
void shash_ops(struct crypto_alg *alg, const struct kiln_impl *impl);

#endif
