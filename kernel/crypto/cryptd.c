// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * cryptd: requests that cannot be served in their context are deferred to a kworker on the same
 * CPU.
 */
#include <kiln/abi/crypto.h>
#include <kiln/abi/hosted.h>
#include <kiln/crypto.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>
#include <kiln/string.h>

static u32 broken;

void kiln_cryptd_break(u32 rules)
{
	broken = rules;
}

/* cryptd's per-CPU data, stored in the @area of struct cpu. */
struct cryptd_cpu {
	struct kiln_work work;
	struct crypto_queue queue;
};

_Static_assert(sizeof(struct cryptd_cpu) <= sizeof(((struct cpu *)0)->area),
	       "CPU_AREA_WORDS is too small");

struct cryptd_rctx {
	bool decrypt;
	struct crypto_request sub;	/* must be last: its ctx follows */
};

static struct cryptd_rctx *request_ctx(struct crypto_request *req)
{
	return (struct cryptd_rctx *)req->ctx;
}

static void complete_request(struct crypto_request *req, int err)
{
	local_bh_disable();
	req->complete(req->data, err);
	local_bh_enable();
}

/* Returns the outer transform that a queued request also holds a reference to, or NULL. */
static struct crypto_tfm *parent(const struct crypto_request *req)
{
	const struct crypto_request *outer = req->data;

	return req->flags & CRYPTO_TFM_REQ_HOLD_PARENT ? outer->tfm : NULL;
}

/*
 * Takes references to the transforms that a queued request needs until serve() has completed it.
 */
static void hold(const struct crypto_request *req)
{
	struct crypto_tfm *outer = parent(req);

	if (broken & KILN_CRYPTD_UNCOUNTED)
		return;
	crypto_tfm_get(req->tfm);
	if (outer)
		crypto_tfm_get(outer);
}

static void serve(struct crypto_request *req)
{
	struct crypto_tfm *tfm = req->tfm, *outer = parent(req);
	struct crypto_request *sub = &request_ctx(req)->sub;
	int err;

	sub->tfm = crypto_tfm_child(tfm);
	crypto_request_set_callback(sub, CRYPTO_TFM_REQ_MAY_SLEEP, NULL, NULL);
	crypto_request_set_crypt(sub, req->src, req->dst, req->cryptlen, req->iv);
	sub->assoclen = req->assoclen;
	err = request_ctx(req)->decrypt ? crypto_decrypt(sub) : crypto_encrypt(sub);
	/*
	 * The caller may free the request as soon as it is completed, so do not access it
	 * afterwards.
	 */
	complete_request(req, err);
	if (broken & KILN_CRYPTD_UNCOUNTED)
		return;
	crypto_free_tfm(outer);
	crypto_free_tfm(tfm);
}

static struct cryptd_cpu *this_cpu_cryptd(void)
{
	return (struct cryptd_cpu *)this_cpu()->area;
}

u32 cryptd_queue_length(void)
{
	return this_cpu_cryptd()->queue.qlen;
}

/* Serves one request. Requeues the work item if more requests are queued. */
static void cryptd_run(struct kiln_work *work)
{
	struct crypto_queue *queue = &this_cpu_cryptd()->queue;
	struct crypto_request *req, *backlog;

	local_bh_disable();
	backlog = queue->backlog;
	req = crypto_dequeue_request(queue);
	local_bh_enable();
	if (!req)
		return;
	if (backlog)
		complete_request(backlog, -EINPROGRESS);
	serve(req);
	if (*(volatile u32 *)&queue->qlen)
		kiln_queue_work(NULL, work);
}

static void break_rules(struct crypto_queue *queue, struct crypto_request *req)
{
	if (broken & KILN_CRYPTD_NO_LIMIT)
		queue->max_qlen = ~0u;
	if (broken & KILN_CRYPTD_NO_BACKLOG)
		req->flags &= ~(u32)CRYPTO_TFM_REQ_MAY_BACKLOG;
	/*
	 * Tests set this flag to break the order of requests: the newest request moves to the head.
	 */
	if (broken & KILN_CRYPTD_LATE_FIRST && queue->head != queue->tail) {
		struct crypto_request *last = queue->tail;

		queue->tail = last->prev;
		queue->tail->next = NULL;
		last->prev = NULL;
		last->next = queue->head;
		queue->head->prev = last;
		queue->head = last;
	}
}

static int enqueue(struct crypto_request *req, bool decrypt)
{
	struct cryptd_cpu *cryptd = this_cpu_cryptd();
	int err;

	request_ctx(req)->decrypt = decrypt;
	local_bh_disable();
	/* The first request on this CPU initialises the CPU's cryptd data. */
	if (unlikely(!cryptd->work.fn)) {
		cryptd->queue.max_qlen = CRYPTD_MAX_CPU_QLEN;
		cryptd->work.fn = cryptd_run;
	}
	if (unlikely(broken))
		break_rules(&cryptd->queue, req);
	err = crypto_enqueue_request(&cryptd->queue, req);
	if (err != -ENOSPC) {
		kiln_queue_work(NULL, &cryptd->work);
		hold(req);
	}
	local_bh_enable();
	return err;
}

static int cryptd_encrypt(struct crypto_request *req)
{
	return enqueue(req, false);
}

static int cryptd_decrypt(struct crypto_request *req)
{
	return enqueue(req, true);
}

static int cryptd_init(struct crypto_tfm *tfm)
{
	return crypto_child_init(tfm, sizeof(struct cryptd_rctx));
}

struct crypto_alg *cryptd_instance(const char *name, u32 type, u32 mask, int *err)
{
	const u32 kept = CRYPTO_ALG_INTERNAL | CRYPTO_ALG_TYPE_MASK;
	char inner[CRYPTO_MAX_ALG_NAME];
	struct crypto_tfm *child;
	struct crypto_alg *alg;

	*err = -ENOENT;
	if (!crypto_name_split(name, "cryptd", inner, NULL))
		return NULL;
	/* Instances of cryptd are asynchronous, which the caller may have excluded. */
	if (mask & ~type & CRYPTO_ALG_ASYNC)
		return NULL;
	/* Hashes are synchronous here: they have no requests that could be queued. */
	if ((type & CRYPTO_ALG_TYPE_MASK) == CRYPTO_ALG_TYPE_SHASH)
		return NULL;
	/*
	 * The child must be synchronous, because the kworker does not wait for the child's
	 * requests.
	 */
	child = crypto_alloc_tfm(inner, type & kept, (mask & kept) | CRYPTO_ALG_ASYNC, err);
	if (!child)
		return NULL;
	alg = crypto_instance(child->alg, "cryptd", NULL, err);
	if (alg) {
		/*
		 * Keep the algorithm's name, because the instance is another implementation of the
		 * same algorithm.
		 */
		memcpy(alg->name, child->alg->name, sizeof(alg->name));
		alg->flags = CRYPTO_ALG_ASYNC | (child->alg->flags & kept);
		alg->models = CRYPTO_MODEL_ALL;
		alg->priority += 50;
		crypto_child_ops(alg, sizeof(struct crypto_tfm *), cryptd_init, cryptd_encrypt,
				 cryptd_decrypt);
	}
	crypto_free_tfm(child);
	return alg;
}

struct crypto_tfm *cryptd_alloc(const char *name, u32 type, u32 mask, int *err)
{
	char wrapped[CRYPTO_MAX_ALG_NAME];

	*err = crypto_name_make(wrapped, "cryptd", name, NULL);
	return *err ? NULL : crypto_alloc_tfm(wrapped, type, mask, err);
}

bool cryptd_queued(struct crypto_tfm *tfm)
{
	return __atomic_load_n(&tfm->refcnt, __ATOMIC_RELAXED) > 1;
}
