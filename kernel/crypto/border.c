// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The host's interface to transforms and requests. */
#include <kiln/abi/context.h>
#include <kiln/abi/crypto.h>
#include <kiln/abi/submission.h>
#include <kiln/context.h>
#include <kiln/crypto.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>
#include <kiln/slab.h>
#include <kiln/string.h>

int kiln_crypto_init(void)
{
	static bool done;

	if (__atomic_exchange_n(&done, true, __ATOMIC_ACQ_REL))
		return 0;
	fpu_budgets_init();
	return impls_register();
}

u64 kiln_crypto_open(void *arg)
{
	struct kiln_tfm *t = arg;
	struct crypto_tfm *tfm = crypto_alloc_tfm(t->name, t->type, t->mask, &t->err);

	t->tfm = tfm;
	if (tfm) {
		t->driver = tfm->alg->driver_name;
		t->flags = tfm->alg->flags;
		t->priority = tfm->alg->priority;
		t->ivsize = tfm->alg->ivsize;
	}
	return !tfm;
}

u64 kiln_crypto_close(void *arg)
{
	const struct kiln_tfm *t = arg;

	crypto_free_tfm(t->tfm);
	return 0;
}

u64 kiln_crypto_setkey(void *arg)
{
	struct kiln_setkey *s = arg;

	s->err = crypto_setkey(s->tfm, s->key, s->len);
	return 0;
}

u64 kiln_crypto_setauthsize(void *arg)
{
	struct kiln_setkey *s = arg;

	s->err = crypto_aead_setauthsize(s->tfm, s->len);
	return 0;
}

static int submit(struct crypto_request *req, bool decrypt)
{
	return decrypt ? crypto_decrypt(req) : crypto_encrypt(req);
}

/* The scatterlists of a request whose data is contiguous. They follow the request's ctx. */
struct plain_request {
	struct scatterlist src, dst;
};

static void *request_alloc(void *tfm)
{
	return crypto_request_alloc(tfm, sizeof(struct plain_request));
}

static int request_submit(void *request, const struct kiln_submission *s)
{
	struct crypto_request *req = request;
	struct plain_request *plain =
		(struct plain_request *)((u8 *)req + sizeof(*req) +
					 crypto_tfm_reqsize(req->tfm));
	/* On encryption, the message length of an AEAD includes the space for the tag. */
	const u32 tag = s->decrypt ? 0 : req->tfm->authsize;

	sg_init_one(&plain->src, s->src, s->len);
	sg_init_one(&plain->dst, s->dst, s->len);
	crypto_request_set_callback(req, s->flags, s->complete, s->data);
	crypto_request_set_crypt(req, &plain->src, &plain->dst, s->len - tag, s->iv);
	return submit(req, s->decrypt);
}

static void tfm_free(void *tfm)
{
	crypto_free_tfm(tfm);
}

const struct kiln_request_ops kiln_request_ops = {
	.request_alloc = request_alloc,
	.request_free = kfree,
	.submit = request_submit,
	.tfm_free = tfm_free,
};

struct errand {
	struct kiln_request *r;
	struct crypto_request *req;
};

static void submit_there(void *arg)
{
	const struct errand *e = arg;

	e->r->submitted = submit(e->req, e->r->decrypt);
}

u64 kiln_crypto_request(void *arg)
{
	struct kiln_request *r = arg;
	struct crypto_wait wait = { 0 };
	struct errand e = { .r = r };

	e.req = crypto_request_alloc(r->tfm, 0);
	r->submitted = r->result = -ENOMEM;
	if (!e.req)
		return 1;
	crypto_request_set_callback(e.req, r->context == KILN_TASK ? CRYPTO_TFM_REQ_MAY_SLEEP : 0,
				    crypto_req_done, &wait);
	crypto_request_set_crypt(e.req, r->src, r->dst, r->len, r->iv);
	e.req->assoclen = r->assoclen;
	run_in_context(r->context, submit_there, &e);
	r->result = crypto_wait_req(r->submitted, &wait);
	kfree(e.req);
	return 0;
}

static int digest_pieces(const struct kiln_digest *d)
{
	u8 exported[KILN_MAX_STATE];
	const u8 *data = d->data;
	struct shash_desc desc;
	int err;
	u32 i;

	desc.tfm = d->tfm;
	err = d->state ? shash_import(&desc, d->state) : shash_init(&desc);
	for (i = 0; i < d->pieces && !err; i++) {
		err = shash_update(&desc, data, d->piece[i]);
		data += d->piece[i];
		if (!err && d->reimport) {
			shash_export(&desc, exported);
			memset(desc.ctx, 0xa5, sizeof(desc.ctx));
			err = shash_import(&desc, exported);
		}
	}
	memzero_explicit(exported, sizeof(exported));
	return err ? err : shash_final(&desc, d->out);
}

static void digest_there(void *arg)
{
	struct kiln_digest *d = arg;

	d->err = d->pieces ? digest_pieces(d) : shash_digest(d->tfm, d->data, d->len, d->out);
}

u64 kiln_crypto_digest(void *arg)
{
	struct kiln_digest *d = arg;

	return !run_in_context(d->context, digest_there, d);
}

u64 kiln_crypto_op_close(void *arg)
{
	struct kiln_crypto_op *op = arg;
	u32 i;

	for (i = 0; op->request && i < op->slots; i++)
		kfree(op->request[i]);
	kfree(op->request);
	op->request = NULL;
	return 0;
}

u64 kiln_crypto_op_open(void *arg)
{
	struct kiln_crypto_op *op = arg;
	u32 i;

	op->request = kmalloc(op->slots * sizeof(*op->request));
	for (i = 0; op->request && i < op->slots; i++) {
		op->request[i] = request_alloc(op->tfm);
		if (!op->request[i])
			kiln_crypto_op_close(op);
	}
	return !op->request;
}

int kiln_crypto_op_crypt(void *arg, u32 slot, u8 *dst, const u8 *src, size_t len,
			 const u8 *iv, bool decrypt,
			 void (*done)(void *data, int answer), void *data)
{
	const struct kiln_crypto_op *op = arg;
	/*
	 * @src and @iv are only read here. The fields are not const, because all requests share
	 * the structure.
	 */
	const struct kiln_submission s = {
		.dst = dst,
		.src = (u8 *)src,
		.iv = (u8 *)iv,
		.len = len,
		.decrypt = decrypt,
		.complete = done,
		.data = data,
	};

	return request_submit(op->request[slot], &s);
}
