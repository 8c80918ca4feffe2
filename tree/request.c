// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Makes requests to a driver, which is opened by name, through the tree's own crypto API. The
 * tree's own build compiles this file, like glue.c.
 *
 * Each function takes one structure from abi.h. It must be called in kernel mode, in a task that
 * may sleep.
 */
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <crypto/aead.h>
#include <crypto/hash.h>
#include <crypto/skcipher.h>
#include <crypto/internal/aead.h>
#include <crypto/internal/hash.h>
#include <crypto/internal/skcipher.h>
#include <../crypto/internal.h>

#include "kiln/tree.h"

#define KILN_PIECES 64

/* An open driver with a key, a request, and the messages of the last call. */
struct kiln_engine {
	enum kiln_engine_kind kind;
	union {
		struct crypto_tfm *base;
		struct crypto_skcipher *skcipher;
		struct crypto_aead *aead;
		struct crypto_shash *shash;
		struct crypto_ahash *ahash;
	} tfm;
	union {
		void *any;
		struct skcipher_request *skcipher;
		struct aead_request *aead;
		struct shash_desc *shash;
		struct ahash_request *ahash;
	} request;
	struct crypto_wait wait;
	struct scatterlist from[KILN_PIECES], to[KILN_PIECES];
	struct scatterlist *sg;		/* source and destination of each message */
	const u8 *prepared_src;
	u8 *prepared_dst;
	u64 prepared_src_len, prepared_dst_len, prepared_count;
};

u64 kiln_glue_list(struct kiln_list *list);
u64 kiln_glue_open(struct kiln_engine_open *open);
u64 kiln_glue_close(struct kiln_engine *engine);
u64 kiln_glue_setkey(struct kiln_engine_key *key);
u64 kiln_glue_requests(struct kiln_engine_requests *requests);
u64 kiln_glue_request(struct kiln_engine_request *request);

static int kiln_kind(u32 flags)
{
	switch (flags & CRYPTO_ALG_TYPE_MASK) {
#ifdef CRYPTO_ALG_TYPE_LSKCIPHER
	case CRYPTO_ALG_TYPE_LSKCIPHER:
#endif
	case CRYPTO_ALG_TYPE_SKCIPHER:
		return KILN_SKCIPHER;
	case CRYPTO_ALG_TYPE_AEAD:
		return KILN_AEAD;
	case CRYPTO_ALG_TYPE_SHASH:
		return KILN_SHASH;
	case CRYPTO_ALG_TYPE_AHASH:
		return KILN_AHASH;
	}
	return -1;
}

/* Lists the drivers that can be opened, in order of registration. */
u64 kiln_glue_list(struct kiln_list *list)
{
	struct crypto_alg *alg;

	list->count = 0;
	list_for_each_entry_reverse(alg, &crypto_alg_list, cra_list) {
		const int kind = kiln_kind(alg->cra_flags);
		struct kiln_listed *to = list->listed + list->count;

		if (alg->cra_flags & (CRYPTO_ALG_LARVAL | CRYPTO_ALG_DEAD) || kind < 0)
			continue;
		if (list->count++ >= list->room)
			continue;
		strscpy(to->name, alg->cra_name, sizeof(to->name));
		strscpy(to->driver, alg->cra_driver_name, sizeof(to->driver));
		to->kind = kind;
		to->internal = !!(alg->cra_flags & CRYPTO_ALG_INTERNAL);
		to->priority = alg->cra_priority;
		to->is_async = !!(alg->cra_flags & CRYPTO_ALG_ASYNC);
	}
	return 0;
}

u64 kiln_glue_close(struct kiln_engine *engine)
{
	switch (engine->kind) {
	case KILN_SKCIPHER:
		skcipher_request_free(engine->request.skcipher);
		crypto_free_skcipher(engine->tfm.skcipher);
		break;
	case KILN_AEAD:
		aead_request_free(engine->request.aead);
		crypto_free_aead(engine->tfm.aead);
		break;
	case KILN_SHASH:
		kfree_sensitive(engine->request.shash);
		crypto_free_shash(engine->tfm.shash);
		break;
	case KILN_AHASH:
		ahash_request_free(engine->request.ahash);
		crypto_free_ahash(engine->tfm.ahash);
		break;
	}
	kfree(engine->sg);
	kfree(engine);
	return 0;
}

static void kiln_open_skcipher(struct kiln_engine_open *o, struct kiln_engine *e, u32 type, u32 mask)
{
	struct crypto_skcipher *tfm = crypto_alloc_skcipher(o->driver, type, mask);

	e->tfm.skcipher = tfm;
	if (IS_ERR(tfm))
		return;
	o->iv = crypto_skcipher_ivsize(tfm);
	o->block = crypto_skcipher_blocksize(tfm);
	o->keyed = 1;
	o->context = crypto_skcipher_ctx(tfm);
	o->is_async = !!(crypto_skcipher_tfm(tfm)->__crt_alg->cra_flags & CRYPTO_ALG_ASYNC);
	e->request.skcipher = skcipher_request_alloc(tfm, GFP_KERNEL);
	if (e->request.skcipher)
		skcipher_request_set_callback(e->request.skcipher, CRYPTO_TFM_REQ_MAY_SLEEP |
					      CRYPTO_TFM_REQ_MAY_BACKLOG, crypto_req_done,
					      &e->wait);
	else
		crypto_free_skcipher(tfm);
}

static void kiln_open_aead(struct kiln_engine_open *o, struct kiln_engine *e, u32 type, u32 mask)
{
	struct crypto_aead *tfm = crypto_alloc_aead(o->driver, type, mask);

	e->tfm.aead = tfm;
	if (IS_ERR(tfm))
		return;
	o->iv = crypto_aead_ivsize(tfm);
	o->block = crypto_aead_blocksize(tfm);
	o->tag = crypto_aead_maxauthsize(tfm);
	o->keyed = 1;
	o->context = crypto_aead_ctx(tfm);
	o->is_async = !!(crypto_aead_tfm(tfm)->__crt_alg->cra_flags & CRYPTO_ALG_ASYNC);
	e->request.aead = aead_request_alloc(tfm, GFP_KERNEL);
	if (e->request.aead)
		aead_request_set_callback(e->request.aead, CRYPTO_TFM_REQ_MAY_SLEEP |
					  CRYPTO_TFM_REQ_MAY_BACKLOG, crypto_req_done,
					  &e->wait);
	else
		crypto_free_aead(tfm);
}

static void kiln_open_shash(struct kiln_engine_open *o, struct kiln_engine *e, u32 type, u32 mask)
{
	struct crypto_shash *tfm = crypto_alloc_shash(o->driver, type, mask);

	e->tfm.shash = tfm;
	if (IS_ERR(tfm))
		return;
	o->block = crypto_shash_blocksize(tfm);
	o->digest = crypto_shash_digestsize(tfm);
	/* The crypto API sets this flag while a hash that requires a key has none. */
	o->keyed = !!(crypto_shash_get_flags(tfm) & CRYPTO_TFM_NEED_KEY);
	o->context = crypto_shash_ctx(tfm);
	e->request.shash = kzalloc(sizeof(struct shash_desc) + crypto_shash_descsize(tfm),
				   GFP_KERNEL);
	if (e->request.shash)
		e->request.shash->tfm = tfm;
	else
		crypto_free_shash(tfm);
}

static void kiln_open_ahash(struct kiln_engine_open *o, struct kiln_engine *e, u32 type, u32 mask)
{
	struct crypto_ahash *tfm = crypto_alloc_ahash(o->driver, type, mask);

	e->tfm.ahash = tfm;
	if (IS_ERR(tfm))
		return;
	o->block = crypto_tfm_alg_blocksize(crypto_ahash_tfm(tfm));
	o->digest = crypto_ahash_digestsize(tfm);
	o->keyed = !!(crypto_ahash_get_flags(tfm) & CRYPTO_TFM_NEED_KEY);
	o->context = NULL;
	o->is_async = !!(crypto_ahash_tfm(tfm)->__crt_alg->cra_flags & CRYPTO_ALG_ASYNC);
	e->request.ahash = ahash_request_alloc(tfm, GFP_KERNEL);
	if (e->request.ahash)
		ahash_request_set_callback(e->request.ahash, CRYPTO_TFM_REQ_MAY_SLEEP |
					   CRYPTO_TFM_REQ_MAY_BACKLOG, crypto_req_done,
					   &e->wait);
	else
		crypto_free_ahash(tfm);
}

/* Opens a public, internal or synchronous driver, as requested. Returns 0 or an errno. */
u64 kiln_glue_open(struct kiln_engine_open *open)
{
	const u32 type = open->which == KILN_INTERNAL ? CRYPTO_ALG_INTERNAL : 0;
	const u32 mask = open->which == KILN_SYNCHRONOUS ? CRYPTO_ALG_ASYNC : type;
	struct kiln_engine *engine = kzalloc(sizeof(*engine), GFP_KERNEL);
	long error = 0;

	if (!engine)
		return ENOMEM;
	engine->kind = open->kind;
	crypto_init_wait(&engine->wait);
	switch (engine->kind) {
	case KILN_SKCIPHER:
		kiln_open_skcipher(open, engine, type, mask);
		break;
	case KILN_AEAD:
		kiln_open_aead(open, engine, type, mask);
		break;
	case KILN_SHASH:
		kiln_open_shash(open, engine, type, mask);
		break;
	case KILN_AHASH:
		kiln_open_ahash(open, engine, type, mask);
		break;
	default:
		engine->tfm.base = ERR_PTR(-EINVAL);
	}
	if (IS_ERR(engine->tfm.base))
		error = -PTR_ERR(engine->tfm.base);
	else if (!engine->request.any)
		error = ENOMEM;
	if (error) {
		kfree(engine);
		return error;
	}
	open->engine = engine;
	return 0;
}

u64 kiln_glue_setkey(struct kiln_engine_key *k)
{
	struct kiln_engine *e = k->engine;
	int error;

	switch (e->kind) {
	case KILN_SKCIPHER:
		return -crypto_skcipher_setkey(e->tfm.skcipher, k->key, k->len);
	case KILN_AEAD:
		error = crypto_aead_setkey(e->tfm.aead, k->key, k->len);
		if (!error && k->tag)
			error = crypto_aead_setauthsize(e->tfm.aead, k->tag);
		return -error;
	case KILN_SHASH:
		return -crypto_shash_setkey(e->tfm.shash, k->key, k->len);
	case KILN_AHASH:
		return -crypto_ahash_setkey(e->tfm.ahash, k->key, k->len);
	}
	return EINVAL;
}

/*
 * Builds scatterlists for all messages. If the messages are the same as in the last call, the
 * scatterlists are reused, as a caller that makes many requests would do.
 */
static int kiln_prepare(struct kiln_engine *e, const struct kiln_messages *m)
{
	const u64 src_len = kiln_message_size(m), dst_len = kiln_result_size(m);
	u64 i;

	if (e->sg && e->prepared_src == m->src && e->prepared_dst == m->dst &&
	    e->prepared_src_len == src_len && e->prepared_dst_len == dst_len &&
	    e->prepared_count == m->count)
		return 0;
	kfree(e->sg);
	e->sg = kmalloc_array(2 * m->count, sizeof(*e->sg), GFP_KERNEL);
	if (!e->sg)
		return -ENOMEM;
	for (i = 0; i < m->count; i++) {
		sg_init_one(&e->sg[2 * i], m->src + i * m->src_stride, src_len);
		sg_init_one(&e->sg[2 * i + 1], m->dst + i * m->dst_stride, dst_len);
	}
	e->prepared_src = m->src;
	e->prepared_dst = m->dst;
	e->prepared_src_len = src_len;
	e->prepared_dst_len = dst_len;
	e->prepared_count = m->count;
	return 0;
}

static int kiln_one_skcipher(struct kiln_engine *e, struct scatterlist *src,
			     struct scatterlist *dst, u8 *iv, const struct kiln_messages *m)
{
	struct skcipher_request *r = e->request.skcipher;

	skcipher_request_set_crypt(r, src, dst, kiln_message_size(m), iv);
	return crypto_wait_req(m->decrypt ? crypto_skcipher_decrypt(r) :
					    crypto_skcipher_encrypt(r), &e->wait);
}

static int kiln_one_aead(struct kiln_engine *e, struct scatterlist *src,
			 struct scatterlist *dst, u8 *iv, const struct kiln_messages *m)
{
	struct aead_request *r = e->request.aead;

	aead_request_set_crypt(r, src, dst, kiln_message_size(m) - m->prefix, iv);
	aead_request_set_ad(r, m->prefix);
	return crypto_wait_req(m->decrypt ? crypto_aead_decrypt(r) : crypto_aead_encrypt(r),
			       &e->wait);
}

static int kiln_one_ahash(struct kiln_engine *e, struct scatterlist *src, u8 *result,
			  const struct kiln_messages *m)
{
	struct ahash_request *r = e->request.ahash;

	ahash_request_set_crypt(r, src, result, kiln_message_size(m));
	return crypto_wait_req(crypto_ahash_digest(r), &e->wait);
}

/*
 * Makes a request for each message. Each request gets its own copy of the IV, because drivers
 * modify it. Returns 0 or an errno.
 */
u64 kiln_glue_requests(struct kiln_engine_requests *requests)
{
	struct kiln_engine *e = requests->engine;
	const struct kiln_messages *m = &requests->m;
	int error = kiln_prepare(e, m);
	u64 n, i = 0;

	for (n = 0; n < m->calls && !error; n++) {
		struct scatterlist *sg = &e->sg[2 * i];
		u8 *iv = m->iv_room + i * m->iv_stride;

		if (!i && e->kind <= KILN_AEAD)
			memcpy(m->iv_room, m->iv, m->count * m->iv_stride);
		switch (e->kind) {
		case KILN_SKCIPHER:
			error = kiln_one_skcipher(e, sg, sg + 1, iv, m);
			break;
		case KILN_AEAD:
			error = kiln_one_aead(e, sg, sg + 1, iv, m);
			break;
		case KILN_SHASH:
			error = crypto_shash_digest(e->request.shash,
						    m->src + i * m->src_stride,
						    kiln_message_size(m),
						    m->dst + i * m->dst_stride);
			break;
		case KILN_AHASH:
			error = kiln_one_ahash(e, sg, m->dst + i * m->dst_stride, m);
			break;
		}
		if (++i == m->count)
			i = 0;
	}
	return -error;
}

static void kiln_gather(struct scatterlist *sg, const struct kiln_engine_piece *pieces, u32 count)
{
	u32 i;

	sg_init_table(sg, count);
	for (i = 0; i < count; i++)
		sg_set_buf(&sg[i], pieces[i].at, pieces[i].len);
}

u64 kiln_glue_request(struct kiln_engine_request *p)
{
	struct kiln_engine *e = p->engine;
	struct scatterlist *src = e->from, *dst = e->to;
	/* When decrypting, the length includes the tag. */
	const struct kiln_messages m = { .len = p->len, .prefix = p->prefix,
					 .decrypt = p->decrypt };
	u32 i;
	int error;

	if (!p->src_count || p->src_count > KILN_PIECES || p->dst_count > KILN_PIECES)
		return EINVAL;
	kiln_gather(src, p->src, p->src_count);
	if (p->dst_count)
		kiln_gather(dst, p->dst, p->dst_count);
	switch (e->kind) {
	case KILN_SKCIPHER:
		return -kiln_one_skcipher(e, src, p->dst_count ? dst : src, p->iv, &m);
	case KILN_AEAD:
		return -kiln_one_aead(e, src, p->dst_count ? dst : src, p->iv, &m);
	case KILN_AHASH:
		return -kiln_one_ahash(e, src, p->result, &m);
	case KILN_SHASH:
		error = crypto_shash_init(e->request.shash);
		for (i = 0; i < p->src_count && !error; i++)
			error = crypto_shash_update(e->request.shash, p->src[i].at,
						    p->src[i].len);
		return error ? -error : -crypto_shash_final(e->request.shash, p->result);
	}
	return EINVAL;
}
