/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The crypto API: looks up algorithms by name, opens transforms, and processes requests.
 * Names, flags and return values are the same as in Linux. abi/crypto.h has the host's interface
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

/* Flags of a request; all but the last are Linux's. */
enum {
	CRYPTO_TFM_REQ_MAY_SLEEP = 0x200,
	CRYPTO_TFM_REQ_MAY_BACKLOG = 0x400,
	/*
	 * The request serves an outer request, to which @data points. While the inner request is
	 * queued, it also holds a reference to the outer transform, because its callback uses it.
	 */
	CRYPTO_TFM_REQ_HOLD_PARENT = 0x10000,
};

/* Bits of @flags in struct crypto_tfm. */
enum { CRYPTO_TFM_NEED_KEY = 1 };

/*
 * Which drivers crypto_alloc_tfm() can find. This depends on the FPU policy: if a softirq may
 * be unable to use the FPU, callers reach SIMD code through the simd helper. Otherwise they call it
 * directly.
 */
enum crypto_model {
	CRYPTO_MODEL_HELPER = 1,
	CRYPTO_MODEL_DIRECT = 2,
	CRYPTO_MODEL_ALL = 3,
};

typedef void crypto_completion_t(void *data, int err);

struct crypto_tfm;

/*
 * A request to a skcipher or an AEAD. It has the fields of Linux's two request structures, and the
 * same size, because the simd helper copies one request structure per request. The first @assoclen
 * bytes of the scatterlist are an AEAD's associated data. The tag follows the text and is included
 * in @cryptlen when decrypting.
 */
struct crypto_request {
	u32 cryptlen;
	u32 assoclen;
	u8 *iv;
	struct scatterlist *src, *dst;
	struct crypto_request *next, *prev;	/* links while in a queue */
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
	u32 maxauthsize;		/* AEAD: maximum tag length in bytes */
	u32 form;			/* enum crypto_form */
	u32 users;			/* transforms and instances that use the algorithm */
	int (*setkey)(struct crypto_tfm *tfm, const u8 *key, u32 len);
	int (*setauthsize)(struct crypto_tfm *tfm, u32 authsize);
	int (*encrypt)(struct crypto_request *req);
	int (*decrypt)(struct crypto_request *req);
	int (*init)(struct crypto_tfm *tfm);
	void (*exit)(struct crypto_tfm *tfm);
	const void *impl;
	struct fpu_budget *budget;	/* [0]: encryption, [1]: decryption; NULL without SIMD */
	u32 shortest;			/* skcipher: minimum message bytes, but at least 1 */
	u32 partial;			/* skcipher: (length & partial) is 0 for whole blocks */
	const u32 *min_bytes;		/* hash: the fallback is used for fewer bytes */
	const void *fallback;		/* hash: used where SIMD is not usable */
	struct crypto_alg *next;
	struct crypto_alg *inner[2];	/* algorithms from which this instance is built */
	bool instance;			/* instance of a template, freed when its last user is gone */
};

/* What an AEAD requires of its requests, apart from valid lengths. */
enum crypto_form {
	CRYPTO_FORM_PLAIN,
	CRYPTO_FORM_IPSEC,	/* 8 or 12 bytes of associated data, then the IV */
	CRYPTO_FORM_CCM,	/* first byte of the IV is the length field's width minus 1 */
};

struct crypto_tfm {
	u32 flags;
	u32 reqsize;			/* size of a request's ctx */
	u32 authsize;			/* AEAD: tag length */
	u32 refcnt;			/* references held by the owner and by queued requests */
	struct crypto_alg *alg;
	u64 ctx[] __aligned(64);
};

/*
 * crypto/api.c: adds an algorithm. Returns -EEXIST if one of its models already has a driver of the
 * same name.
 */
int crypto_register_alg(struct crypto_alg *alg);

/*
 * Finds the algorithm with the driver name @name, or else the one with the algorithm name @name and
 * the highest priority, and opens a transform. The flags of the algorithm, including its type, must
 * match @type in every bit that is set in @mask. Internal algorithms are found only if @type or
 * @mask includes CRYPTO_ALG_INTERNAL. On failure, returns NULL and sets *@err.
 */
struct crypto_tfm *crypto_alloc_tfm(const char *name, u32 type, u32 mask, int *err);
/* Opens another transform of an algorithm that already has a user. */
struct crypto_tfm *crypto_spawn_tfm(struct crypto_alg *alg, int *err);
/*
 * Drops a reference. The transform is freed when its owner and all requests queued on it have
 * dropped their references.
 */
void crypto_free_tfm(struct crypto_tfm *tfm);

int crypto_setkey(struct crypto_tfm *tfm, const u8 *key, u32 len);
int crypto_aead_setauthsize(struct crypto_tfm *tfm, u32 authsize);
/*
 * Process a request. Both return 0 if it is done. If the callback will receive the result, they
 * return -EINPROGRESS, or -EBUSY if the request was backlogged. They return -ENOSPC if the queue is
 * full, and -EDEADLK in a hardirq or an NMI, where requests are not allowed. Other errors mean that
 * the request is invalid.
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

/* Allocates a request on @tfm with @more bytes after its ctx. Returns NULL if out of memory. */
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

/* Returns the entry after @sg, which must not be the last. */
static inline struct scatterlist *sg_next(struct scatterlist *sg)
{
	sg++;
	return sg->chain ? (struct scatterlist *)sg->addr : sg;
}

/* A task that waits for a request's completion. */
struct crypto_wait {
	struct task *task;
	int err;
	bool done;
};

void crypto_req_done(void *data, int err);
int crypto_wait_req(int err, struct crypto_wait *wait);

/*
 * crypto/walk.c: iterates over a request's scatterlists. Each step covers @nbytes bytes at @src and
 * @dst. Every step except the last is a whole number of blocks. Blocks that straddle entries are
 * copied to a buffer in this structure.
 */
enum { WALK_BLOCK = 16, WALK_MAX_BLOCK = 64, WALK_PAGE = 4096 };

struct skcipher_walk {
	u8 *src, *dst;
	u32 nbytes;
	u32 total;		/* remaining bytes, including this step */
	u32 block;
	struct scatterlist *in, *out;
	u32 in_offset, out_offset;
	bool bounced;
	u8 buffer[2 * WALK_MAX_BLOCK] __aligned(16);
};

/*
 * Starts a walk over the @len bytes after the associated data, in blocks of @block bytes. Returns
 * -EINVAL if the scatterlists are too short.
 */
int skcipher_walk_text(struct skcipher_walk *walk, const struct crypto_request *req,
		       u32 len, u32 block);
/* Starts a step of at most @step bytes, but at least one block. @total must not be 0. */
void skcipher_walk_next(struct skcipher_walk *walk, u32 step);
void skcipher_walk_done(struct skcipher_walk *walk);

/*
 * Returns whether the list has at least @n bytes. @n is 64 bits wide, because the sum of a
 * request's lengths may not fit in 32 bits.
 */
bool scatterwalk_holds(struct scatterlist *sg, u64 n);
/*
 * Copies @n bytes between @buffer and the list, starting at offset @skip of the list. If @out,
 * copies from @buffer to the list.
 */
void scatterwalk_copy(u8 *buffer, struct scatterlist *sg, u64 skip, u32 n, bool out);
/* Copies the first @n bytes of the list @src to the list @dst. */
void scatterwalk_copy_pieces(struct scatterlist *dst, struct scatterlist *src, u64 n);
/* Returns the address of the @n bytes at offset @skip if they are contiguous, otherwise NULL. */
u8 *scatterwalk_piece(struct scatterlist *sg, u64 skip, u32 n);
/*
 * Returns the rest of the list from offset @skip on. If the offset is inside an entry, the rest of
 * that entry and a link to the next entry are stored in @room.
 */
struct scatterlist *scatterwalk_ffwd(struct scatterlist room[2], struct scatterlist *sg,
				     u64 skip);
/*
 * Returns how many of the next @left bytes are contiguous, sets *@at to their address, and advances
 * past them.
 */
u32 scatterwalk_next(struct scatterlist **sg, u32 *offset, u64 left, u8 **at);

/*
 * crypto/queue.c: a request queue. Once it holds @max_qlen requests, it accepts only those with
 * CRYPTO_TFM_REQ_MAY_BACKLOG.
 */
struct crypto_queue {
	struct crypto_request *head, *tail;
	struct crypto_request *backlog;	/* first backlogged request; not yet notified */
	u32 qlen, max_qlen;
};

int crypto_enqueue_request(struct crypto_queue *queue, struct crypto_request *req);
struct crypto_request *crypto_dequeue_request(struct crypto_queue *queue);
/* crypto/cryptd.c: maximum number of requests in each CPU's queue. */
enum { CRYPTD_MAX_CPU_QLEN = 1000 };

/* Returns the number of requests in the calling CPU's queue. */
u32 cryptd_queue_length(void);
struct crypto_tfm *cryptd_alloc(const char *name, u32 type, u32 mask, int *err);
bool cryptd_queued(struct crypto_tfm *tfm);
/*
 * crypto/cryptd.c, seqiv.c, authenc.c: create the template instance named @name. Called by
 * crypto_alloc_tfm(). If @name does not use the template, return NULL and set *@err to -ENOENT.
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
 * Splits a name that crypto_name_make() could have built. Returns false if @name does not have this
 * form. If @second is NULL, @name must have one argument.
 */
bool crypto_name_split(const char *name, const char *outer,
		       char first[CRYPTO_MAX_ALG_NAME], char second[CRYPTO_MAX_ALG_NAME]);

/*
 * Allocates an algorithm and prepends @prefix to both of its names. Returns NULL if out of memory
 * or if a name is too long.
 */
struct crypto_alg *crypto_alg_new(const char *name, const char *driver, const char *prefix);
/* Registers the algorithm, or frees it on failure. */
int crypto_alg_add(struct crypto_alg *alg);
/*
 * Creates an instance of the template @outer, which becomes a user of @first and, if @second is not
 * NULL, also of @second. All fields except the names are copied from @first. The template then
 * overwrites those that must differ.
 */
struct crypto_alg *crypto_instance(struct crypto_alg *first, const char *outer,
				   struct crypto_alg *second, int *err);
/* Adds a user to an algorithm that already has one. */
void crypto_alg_get(struct crypto_alg *alg);
/* Frees an unregistered instance. */
void crypto_instance_free(struct crypto_alg *alg);

/*
 * Returns the mask for looking up an inner algorithm, which must be synchronous if the caller
 * requires a synchronous instance.
 */
static inline u32 crypto_inherited_mask(u32 type, u32 mask)
{
	return mask & ~type & CRYPTO_ALG_ASYNC;
}

/*
 * crypto/shash.c: a hash in progress. The ctx can be copied, and any tier of the algorithm can
 * continue from the copy.
 */
struct shash_desc {
	struct crypto_tfm *tfm;
	u8 ctx[KILN_MAX_STATE] __aligned(64);
};

/* A hash's functions. They return 0 or -ENOKEY, and may be called in any context. */
int shash_init(struct shash_desc *desc);
int shash_update(struct shash_desc *desc, const u8 *data, u32 len);
int shash_final(struct shash_desc *desc, u8 *out);
int shash_digest(struct crypto_tfm *tfm, const u8 *data, u32 len, u8 *out);
/* Hashes the first @len bytes of a scatterlist. Returns -EINVAL if the list is shorter. */
int shash_digest_pieces(struct crypto_tfm *tfm, struct scatterlist *sg, u64 len, u8 *out);

/*
 * Like shash_digest_pieces(), but hashes a contiguous message in a single call. Linux's ahash
 * wrapper around an shash does the same.
 */
static inline int shash_digest_sg(struct crypto_tfm *tfm, struct scatterlist *sg, u64 len,
				  u8 *out)
{
	if (likely(sg->length >= len))
		return shash_digest(tfm, sg->addr, len, out);
	return shash_digest_pieces(tfm, sg, len, out);
}

/* Writes the state, crypto_shash_statesize() bytes, to @out. */
int shash_export(const struct shash_desc *desc, void *out);
/* Replaces the state. If no message leads to this state, returns -EINVAL and wipes the state. */
int shash_import(struct shash_desc *desc, const void *in);
u32 shash_digestsize(const struct crypto_tfm *tfm);
u32 shash_statesize(const struct crypto_tfm *tfm);

/* Returns whether SIMD code may run in this context; if not, use cryptd or scalar code. */
static __always_inline bool crypto_simd_usable(void)
{
	return irq_fpu_usable();
}

/*
 * Returns the inner transform of @tfm. For templates that wrap a single algorithm: the inner
 * transform processes all requests, and the context of @tfm begins with a pointer to it.
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
 * crypto/simd.c: registers a simd helper for @inner. The names of @inner begin with "__"; the
 * helper has the same names without these underscores.
 */
int simd_register(const struct crypto_alg *inner);

/* crypto/register.c: registers all implementations in ciphers/list.c. */
int impls_register(void);

/*
 * Defines encrypt_simd, encrypt_scalar, decrypt_simd and decrypt_scalar. Each of them inlines
 * @crypt, which takes the arguments (request, simd, decrypt).
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
 * crypto/aead.c, skcipher.c and shash.c: fill in the type-specific fields of @alg, including its
 * function pointers, for the implementation @impl.
 */
void aead_ops(struct crypto_alg *alg, const struct kiln_impl *impl);
void skcipher_ops(struct crypto_alg *alg, const struct kiln_impl *impl);
void shash_ops(struct crypto_alg *alg, const struct kiln_impl *impl);

#endif
