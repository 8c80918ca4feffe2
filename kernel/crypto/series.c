// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Requests one after the other, to be timed: as a user with a list of messages makes them, or
 * one request put again and again.
 */
#include <kiln/crypto.h>
#include <kiln/kiln.h>
#include <kiln/slab.h>
#include <kiln/string.h>

/* What came of a request, waited for. */
static __always_inline void answered(struct kiln_api_calls *c, struct crypto_wait *wait, int err)
{
	if (likely(!err))
		return;
	c->later += err == -EINPROGRESS || err == -EBUSY;
	err = crypto_wait_req(err, wait);
	if (err && !c->err)
		c->err = err;
}

static __always_inline int submit(struct crypto_request *req, bool decrypt)
{
	return decrypt ? crypto_decrypt(req) : crypto_encrypt(req);
}

/* Fresh IVs for the calls to come: each leaves another than it found. */
static void renew(const struct kiln_api_calls *c, u64 calls)
{
	const size_t n = calls < c->count ? calls : c->count;

	if (c->iv_stride)
		memcpy(c->iv, c->fresh, n * c->iv_stride);
}

/* Each has a list of one piece on either side, made for it. */
static void request_each(struct kiln_api_calls *c, struct crypto_request *req)
{
	struct crypto_wait wait = { 0 };
	struct scatterlist src, dst;
	u8 *from = c->src, *to = c->dst, *iv = c->iv;
	size_t i = 0;
	u64 n;

	renew(c, c->calls);
	for (n = c->calls; n; n--) {
		sg_init_one(&src, from, c->src_len);
		sg_init_one(&dst, to, c->dst_len);
		crypto_request_set_callback(req, CRYPTO_TFM_REQ_MAY_BACKLOG, crypto_req_done,
					    &wait);
		crypto_request_set_crypt(req, &src, &dst, c->cryptlen, iv);
		req->assoclen = c->assoclen;
		answered(c, &wait, submit(req, c->decrypt));
		from += c->src_stride;
		to += c->dst_stride;
		iv += c->iv_stride;
		if (++i == c->count) {
			i = 0;
			from = c->src;
			to = c->dst;
			iv = c->iv;
			renew(c, n - 1);
		}
	}
}

/* All is said once: tcrypt's loop. The IV is what the last call left. */
static void request_again(struct kiln_api_calls *c, struct crypto_request *req)
{
	struct crypto_wait wait = { 0 };
	u64 n;

	renew(c, 1);
	crypto_request_set_callback(req, CRYPTO_TFM_REQ_MAY_BACKLOG, crypto_req_done, &wait);
	crypto_request_set_crypt(req, c->from, c->to, c->cryptlen, c->iv);
	req->assoclen = c->assoclen;
	for (n = c->calls; n; n--)
		answered(c, &wait, submit(req, c->decrypt));
}

static void digest_each(struct kiln_api_calls *c)
{
	u8 *from = c->src, *to = c->dst;
	size_t i = 0;
	u64 n;

	for (n = c->calls; n; n--) {
		const int err = shash_digest(c->tfm, from, c->cryptlen, to);

		if (unlikely(err) && !c->err)
			c->err = err;
		from += c->src_stride;
		to += c->dst_stride;
		if (++i == c->count) {
			i = 0;
			from = c->src;
			to = c->dst;
		}
	}
}

static void digest_again(struct kiln_api_calls *c)
{
	u64 n;

	for (n = c->calls; n; n--) {
		const int err = shash_digest_sg(c->tfm, c->from, c->cryptlen, c->dst);

		if (unlikely(err) && !c->err)
			c->err = err;
	}
}

u64 kiln_crypto_calls(void *arg)
{
	struct kiln_api_calls *c = arg;
	struct crypto_tfm *tfm = c->tfm;
	struct crypto_request *req;

	c->err = 0;
	c->later = 0;
	if ((tfm->alg->flags & CRYPTO_ALG_TYPE_MASK) == CRYPTO_ALG_TYPE_SHASH) {
		if (c->from)
			digest_again(c);
		else
			digest_each(c);
		return 0;
	}
	req = kmalloc(sizeof(*req) + crypto_tfm_reqsize(tfm));
	if (!req) {
		c->err = -ENOMEM;
		return 1;
	}
	req->tfm = tfm;
	if (c->from)
		request_again(c, req);
	else
		request_each(c, req);
	kfree(req);
	return 0;
}
