// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Makes a cipher of the tree's crypto API available as a load operation (struct kiln_op). Requests
 * are asynchronous, and several may be in flight. The tree's own build compiles this file, like
 * glue.c.
 */
#include <linux/err.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/version.h>
#include <crypto/skcipher.h>

#include "kiln/abi/submission.h"
#include "kiln/tree.h"

struct kiln_slot {
	struct skcipher_request *request;
	struct scatterlist src, dst;
	u8 iv[16];
	void (*done)(void *data, int answer);
	void *data;
};

struct kiln_stream {
	struct crypto_skcipher *tfm;
	u32 slots;
	struct kiln_slot slot[];
};

void *kiln_glue_request_alloc(void *stream);
void kiln_glue_request_free(void *request);
int kiln_glue_request_submit(void *request, const struct kiln_submission *submission);
void kiln_glue_request_tfm_free(void *stream);
u64 kiln_glue_stream_open(struct kiln_stream_open *open);
u64 kiln_glue_stream_close(struct kiln_stream *stream);
int kiln_glue_stream_crypt(void *stream, u32 slot, u8 *dst, const u8 *src, size_t len,
			   const u8 *iv, bool decrypt,
			   void (*done)(void *data, int answer), void *data);

/* Since 6.3 the callback's parameter is the data. Before that, it was the request. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
static void kiln_stream_done(void *data, int answer)
{
	struct kiln_slot *slot = data;
#else
static void kiln_stream_done(struct crypto_async_request *request, int answer)
{
	struct kiln_slot *slot = request->data;
#endif

	slot->done(slot->data, answer);
}

u64 kiln_glue_stream_close(struct kiln_stream *stream)
{
	u32 i;

	for (i = 0; i < stream->slots; i++)
		skcipher_request_free(stream->slot[i].request);
	if (stream->tfm)
		crypto_free_skcipher(stream->tfm);
	kfree(stream);
	return 0;
}

/* Opens a driver with a key. Returns 0 or a negative errno. */
u64 kiln_glue_stream_open(struct kiln_stream_open *open)
{
	const u32 flags = open->sleeps ? CRYPTO_TFM_REQ_MAY_SLEEP | CRYPTO_TFM_REQ_MAY_BACKLOG : 0;
	struct kiln_stream *stream;
	u32 i;
	int error;

	stream = kzalloc(sizeof(*stream) + open->slots * sizeof(stream->slot[0]), GFP_KERNEL);
	if (!stream)
		return -ENOMEM;
	stream->tfm = crypto_alloc_skcipher(open->driver, 0, 0);
	if (IS_ERR(stream->tfm)) {
		error = PTR_ERR(stream->tfm);
		kfree(stream);
		return error;
	}
	error = crypto_skcipher_ivsize(stream->tfm) == 16 ? 0 : -EINVAL;
	if (!error)
		error = crypto_skcipher_setkey(stream->tfm, open->key, open->key_len);
	for (i = 0; i < open->slots && !error; i++) {
		struct kiln_slot *slot = &stream->slot[i];

		slot->request = skcipher_request_alloc(stream->tfm, GFP_KERNEL);
		if (!slot->request) {
			error = -ENOMEM;
			break;
		}
		stream->slots++;
		sg_init_table(&slot->src, 1);
		sg_init_table(&slot->dst, 1);
		skcipher_request_set_callback(slot->request, flags, kiln_stream_done, slot);
	}
	if (error) {
		kiln_glue_stream_close(stream);
		return error;
	}
	strscpy(open->name, crypto_skcipher_driver_name(stream->tfm), sizeof(open->name));
	open->stream = stream;
	return 0;
}

int kiln_glue_stream_crypt(void *arg, u32 n, u8 *dst, const u8 *src, size_t len,
			   const u8 *iv, bool decrypt,
			   void (*done)(void *data, int answer), void *data)
{
	struct kiln_stream *stream = arg;
	struct kiln_slot *slot = &stream->slot[n];

	slot->done = done;
	slot->data = data;
	memcpy(slot->iv, iv, sizeof(slot->iv));
	sg_set_buf(&slot->src, src, len);
	sg_set_buf(&slot->dst, dst, len);
	skcipher_request_set_crypt(slot->request, &slot->src, &slot->dst, len, slot->iv);
	return decrypt ? crypto_skcipher_decrypt(slot->request) :
			 crypto_skcipher_encrypt(slot->request);
}

/* The following functions let a script make single requests (struct kiln_request_ops). */
void *kiln_glue_request_alloc(void *arg)
{
	struct kiln_stream *stream = arg;
	struct kiln_slot *slot = kzalloc(sizeof(*slot), GFP_KERNEL);

	if (!slot)
		return NULL;
	slot->request = skcipher_request_alloc(stream->tfm, GFP_KERNEL);
	if (!slot->request) {
		kfree(slot);
		return NULL;
	}
	sg_init_table(&slot->src, 1);
	sg_init_table(&slot->dst, 1);
	return slot;
}

void kiln_glue_request_free(void *request)
{
	struct kiln_slot *slot = request;

	skcipher_request_free(slot->request);
	kfree(slot);
}

int kiln_glue_request_submit(void *request, const struct kiln_submission *s)
{
	struct kiln_slot *slot = request;

	slot->done = s->complete;
	slot->data = s->data;
	skcipher_request_set_callback(slot->request, s->flags, kiln_stream_done, slot);
	sg_set_buf(&slot->src, s->src, s->len);
	sg_set_buf(&slot->dst, s->dst, s->len);
	skcipher_request_set_crypt(slot->request, &slot->src, &slot->dst, s->len, s->iv);
	return s->decrypt ? crypto_skcipher_decrypt(slot->request) :
			    crypto_skcipher_encrypt(slot->request);
}

/* Frees the transform but not the stream, because the stream may be part of another structure. */
void kiln_glue_request_tfm_free(void *arg)
{
	struct kiln_stream *stream = arg;

	crypto_free_skcipher(stream->tfm);
	stream->tfm = NULL;
}
