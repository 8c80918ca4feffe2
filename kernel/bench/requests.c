// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Timed loops of crypto requests. One loop makes one request per message, like a user with a list
 * of messages; the other repeats the same request, like tcrypt. The first loop is compiled once for
 * whole requests and once for each part of a request.
 */
#include <kiln/abi/bench.h>
#include <kiln/abi/crypto.h>
#include <kiln/abi/messages.h>
#include <kiln/crypto.h>
#include <kiln/preempt.h>
#include <kiln/slab.h>
#include <kiln/string.h>

#include "lap.h"

static noinline int call_nothing(struct crypto_request *req)
{
	__asm__ volatile("" : : "r"(req) : "memory");
	return 0;
}

/*
 * Submits the request @req, or performs only one part of the work that the simd helper does for a
 * request. @part is a compile-time constant.
 */
static __always_inline int make(struct crypto_request *req, const u32 part, bool decrypt)
{
	static int (*volatile call)(struct crypto_request *req) = call_nothing;
	struct crypto_request *sub = (struct crypto_request *)req->ctx;

	switch (part) {
	case KILN_REQUEST:
		return decrypt ? crypto_decrypt(req) : crypto_encrypt(req);
	case KILN_REQUEST_CHECKS:
		barrier();
		return !crypto_simd_usable() || (in_atomic() && *(volatile u32 *)&req->flags);
	case KILN_REQUEST_COPY:
		barrier();
		*sub = *req;
		barrier();
		return 0;
	case KILN_REQUEST_CALL:
		return call(req);
	default:
		barrier();
		return 0;
	}
}

static __always_inline void note(struct kiln_requests *r, int err)
{
	if (unlikely(err) && !r->err)
		r->err = err;
}

static noinline void wait_for_answer(struct kiln_requests *r, struct crypto_wait *wait, int err)
{
	r->later += err == -EINPROGRESS || err == -EBUSY;
	note(r, crypto_wait_req(err, wait));
}

static __always_inline void wait_for(struct kiln_requests *r, struct crypto_wait *wait, int err)
{
	if (unlikely(err))
		wait_for_answer(r, wait, err);
}

/*
 * Fields shared by all requests in a loop. They are copied from @r before the loop: a request could
 * change @r, so the compiler would otherwise reload them for every request.
 */
struct common {
	u32 src_len, dst_len, cryptlen, assoclen;
	bool decrypt;
};

/*
 * Computes the shared fields for the messages @m. @aead is a compile-time constant. An skcipher has
 * neither associated data nor a tag, so all of its lengths equal the length of the text.
 */
static __always_inline struct common read_common(const struct kiln_messages *m, const bool aead)
{
	if (!aead)
		return (struct common){ m->len, m->len, m->len, 0, m->decrypt };
	return (struct common){
		.src_len = kiln_message_size(m),
		.dst_len = kiln_result_size(m),
		.cryptlen = kiln_message_size(m) - m->prefix,
		.assoclen = m->prefix,
		.decrypt = m->decrypt,
	};
}

/*
 * Fills in a request. Like real users, it does not write the assoclen of an skcipher request: the
 * simd helper loads assoclen and cryptlen together, and a load cannot be forwarded from two
 * separate stores.
 */
static __always_inline void fill(struct crypto_request *req, const struct common *c, const bool aead,
				 struct scatterlist *src, struct scatterlist *dst, u8 *iv,
				 struct crypto_wait *wait)
{
	crypto_request_set_callback(req, CRYPTO_TFM_REQ_MAY_SLEEP | CRYPTO_TFM_REQ_MAY_BACKLOG,
				    crypto_req_done, wait);
	crypto_request_set_crypt(req, src, dst, c->cryptlen, iv);
	if (aead)
		req->assoclen = c->assoclen;
}

/* Makes one request per message. @part and @aead are compile-time constants. */
static __always_inline void make_requests(struct kiln_requests *r, struct crypto_request *req,
					  const u32 part, const bool aead)
{
	const struct kiln_messages *m = &r->m;
	const struct common c = read_common(m, aead);
	struct crypto_wait wait = { 0 };
	struct scatterlist from, to;
	u64 calls, lap, i;

	for (calls = m->calls; calls; calls -= lap) {
		u8 *in = (u8 *)m->src, *out = m->dst, *iv = m->iv_room;

		lap = count_lap(m, calls);
		copy_ivs(m, lap);
		for (i = lap; i; i--) {
			sg_init_one(&from, in, c.src_len);
			sg_init_one(&to, out, c.dst_len);
			fill(req, &c, aead, &from, &to, iv, &wait);
			wait_for(r, &wait, make(req, part, c.decrypt));
			in += m->src_stride;
			out += m->dst_stride;
			iv += m->iv_stride;
		}
	}
}

/* Fills in one request and submits it repeatedly, like tcrypt. */
static void repeat_request(struct kiln_requests *r, struct crypto_request *req, const bool aead)
{
	const struct common c = read_common(&r->m, aead);
	struct crypto_wait wait = { 0 };
	u64 n;

	copy_ivs(&r->m, 1);
	fill(req, &c, aead, r->from, r->to, r->m.iv_room, &wait);
	for (n = r->m.calls; n; n--)
		wait_for(r, &wait, make(req, KILN_REQUEST, c.decrypt));
}

static void make_digests(struct kiln_requests *r)
{
	const struct kiln_messages *m = &r->m;
	u64 calls, lap, i;

	for (calls = m->calls; calls; calls -= lap) {
		const u8 *in = m->src;
		u8 *out = m->dst;

		lap = count_lap(m, calls);
		for (i = lap; i; i--) {
			note(r, shash_digest(r->tfm, in, m->len, out));
			in += m->src_stride;
			out += m->dst_stride;
		}
	}
}

static void repeat_digest(struct kiln_requests *r)
{
	u64 n;

	for (n = r->m.calls; n; n--)
		note(r, shash_digest_sg(r->tfm, r->from, r->m.len, r->m.dst));
}

u64 kiln_requests_run(void *arg)
{
	struct kiln_requests *r = arg;
	struct crypto_tfm *tfm = r->tfm;
	const u32 type = tfm->alg->flags & CRYPTO_ALG_TYPE_MASK;
	const bool aead = type == CRYPTO_ALG_TYPE_AEAD;
	struct crypto_request *req;

	r->err = 0;
	r->later = 0;
	if (type == CRYPTO_ALG_TYPE_SHASH) {
		if (r->from)
			repeat_digest(r);
		else
			make_digests(r);
		return 0;
	}
	/* Only requests to the simd helper have room for a sub-request. */
	if (r->part == KILN_REQUEST_COPY && crypto_tfm_reqsize(tfm) < sizeof(*req)) {
		r->err = -EINVAL;
		return 1;
	}
	req = crypto_request_alloc(tfm, 0);
	if (!req) {
		r->err = -ENOMEM;
		return 1;
	}
	req->assoclen = 0;
	switch (r->part) {
	case KILN_REQUEST:
		if (r->from)
			repeat_request(r, req, aead);
		else if (aead)
			make_requests(r, req, KILN_REQUEST, true);
		else
			make_requests(r, req, KILN_REQUEST, false);
		break;
	case KILN_REQUEST_SETUP:
		make_requests(r, req, KILN_REQUEST_SETUP, false);
		break;
	case KILN_REQUEST_CHECKS:
		make_requests(r, req, KILN_REQUEST_CHECKS, false);
		break;
	case KILN_REQUEST_COPY:
		make_requests(r, req, KILN_REQUEST_COPY, false);
		break;
	case KILN_REQUEST_CALL:
		make_requests(r, req, KILN_REQUEST_CALL, false);
		break;
	default:
		r->err = -EINVAL;
	}
	kfree(req);
	return 0;
}
