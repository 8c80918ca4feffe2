// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Requests one after the other, as a user with a list of messages makes them, or one request
 * made repeatedly, as tcrypt does. The loop is compiled for each of the two, and for parts of a
 * request.
 */
#include <kiln/abi/bench.h>
#include <kiln/abi/crypto.h>
#include <kiln/abi/messages.h>
#include <kiln/crypto.h>
#include <kiln/preempt.h>
#include <kiln/slab.h>
#include <kiln/string.h>

/* Drivers modify the IV, so requests get copies. */
static void copy_ivs(const struct kiln_messages *m, u64 calls)
{
	const size_t n = calls < m->count ? calls : m->count;

	if (m->iv_stride)
		memcpy(m->iv_room, m->iv, n * m->iv_stride);
}

static noinline int call_nothing(struct crypto_request *req)
{
	__asm__ volatile("" : : "r"(req) : "memory");
	return 0;
}

/* Does one part of the simd helper's work on @req. */
static noinline int make_part(u32 part, struct crypto_request *req)
{
	static int (*volatile call)(struct crypto_request *req) = call_nothing;
	struct crypto_request *sub = (struct crypto_request *)req->ctx;

	switch (part) {
	case KILN_REQUEST_CHECKS:
		return !crypto_simd_usable() || (in_atomic() && *(volatile u32 *)&req->flags);
	case KILN_REQUEST_COPY:
		*sub = *req;
		barrier();
		return 0;
	case KILN_REQUEST_CALL:
		return call(req);
	default:
		return 0;
	}
}

static noinline void wait_for_answer(struct kiln_requests *r, struct crypto_wait *wait, int err)
{
	r->later += err == -EINPROGRESS || err == -EBUSY;
	err = crypto_wait_req(err, wait);
	if (err && !r->err)
		r->err = err;
}

/* @repeat and @whole are constants. With @repeat the request is filled in once. */
static __always_inline void make_requests(struct kiln_requests *r, struct crypto_request *req,
					  const bool repeat, const bool whole)
{
	const struct kiln_messages *m = &r->m;
	struct crypto_wait wait = { 0 };
	struct scatterlist from, to, *src = repeat ? r->from : &from, *dst = repeat ? r->to : &to;
	u8 *in = (u8 *)m->src, *out = m->dst, *iv = m->iv_room;
	const u32 src_len = kiln_message_size(m), dst_len = kiln_result_size(m);
	bool filled = false;
	size_t i = 0;
	u64 n;

	copy_ivs(m, repeat ? 1 : m->calls);
	for (n = m->calls; n; n--) {
		int err;

		if (!repeat) {
			sg_init_one(&from, in, src_len);
			sg_init_one(&to, out, dst_len);
		}
		if (!repeat || !filled) {
			crypto_request_set_callback(req, CRYPTO_TFM_REQ_MAY_SLEEP |
						    CRYPTO_TFM_REQ_MAY_BACKLOG,
						    crypto_req_done, &wait);
			crypto_request_set_crypt(req, src, dst, src_len - m->prefix, iv);
			if (m->prefix)
				req->assoclen = m->prefix;
			filled = true;
		}
		if (!whole) {
			barrier();
			err = make_part(r->part, req);
		} else {
			err = m->decrypt ? crypto_decrypt(req) : crypto_encrypt(req);
		}
		if (unlikely(err))
			wait_for_answer(r, &wait, err);
		if (repeat)
			continue;
		in += m->src_stride;
		out += m->dst_stride;
		iv += m->iv_stride;
		if (++i == m->count) {
			i = 0;
			in = (u8 *)m->src;
			out = m->dst;
			iv = m->iv_room;
			copy_ivs(m, n - 1);
		}
	}
}

static __always_inline void make_digests(struct kiln_requests *r, const bool repeat)
{
	const struct kiln_messages *m = &r->m;
	const u8 *in = m->src;
	u8 *out = m->dst;
	size_t i = 0;
	u64 n;

	for (n = m->calls; n; n--) {
		const int err = repeat ? shash_digest_sg(r->tfm, r->from, m->len, out) :
					 shash_digest(r->tfm, in, m->len, out);

		if (unlikely(err) && !r->err)
			r->err = err;
		if (repeat)
			continue;
		in += m->src_stride;
		out += m->dst_stride;
		if (++i == m->count) {
			i = 0;
			in = m->src;
			out = m->dst;
		}
	}
}

u64 kiln_requests_run(void *arg)
{
	struct kiln_requests *r = arg;
	struct crypto_tfm *tfm = r->tfm;
	struct crypto_request *req;

	r->err = 0;
	r->later = 0;
	if ((tfm->alg->flags & CRYPTO_ALG_TYPE_MASK) == CRYPTO_ALG_TYPE_SHASH) {
		if (r->from)
			make_digests(r, true);
		else
			make_digests(r, false);
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
	/*
	 * Users of skciphers do not write it with each request. To do so would delay the simd
	 * helper, which loads it with cryptlen: one load from two stores is not forwarded.
	 */
	req->assoclen = 0;
	if (r->from)
		make_requests(r, req, true, true);
	else if (r->part == KILN_REQUEST)
		make_requests(r, req, false, true);
	else
		make_requests(r, req, false, false);
	kfree(req);
	return 0;
}
