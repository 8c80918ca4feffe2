// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Looks up algorithms by name, opens transforms, and checks and forwards requests. */
#include <kiln/abi/cipher.h>
#include <kiln/cpufeature.h>
#include <kiln/crypto.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>
#include <kiln/slab.h>
#include <kiln/spinlock.h>
#include <kiln/string.h>

static struct crypto_alg *algs;
static struct spinlock algs_lock;
static u32 model = CRYPTO_MODEL_HELPER;

/* Returns whether a driver with the same name already exists in any of the models of @wanted. */
static bool is_taken(const struct crypto_alg *wanted)
{
	const struct crypto_alg *alg;

	for (alg = algs; alg; alg = alg->next)
		if (streq(alg->driver_name, wanted->driver_name) &&
		    alg->models & wanted->models)
			return true;
	return false;
}

int crypto_register_alg(struct crypto_alg *alg)
{
	bool off;
	int err = 0;

	if (!alg->name[0] || !alg->driver_name[0] || !(alg->flags & CRYPTO_ALG_TYPE_MASK))
		return -EINVAL;
	off = spin_lock_irqsave(&algs_lock);
	if (is_taken(alg)) {
		err = -EEXIST;
	} else {
		alg->next = algs;
		algs = alg;
	}
	spin_unlock_irqrestore(&algs_lock, off);
	return err;
}

void kiln_crypto_model(u32 wanted)
{
	__atomic_store_n(&model, wanted, __ATOMIC_RELAXED);
}

/*
 * Returns whether @alg is the fastest implementation of its algorithm according to the calibration.
 */
static bool is_fastest(const struct crypto_alg *alg)
{
	const u32 internal = alg->flags & CRYPTO_ALG_INTERNAL ? 2 : 0;
	const struct kiln_impl *impl = fpu_fastest(alg->name + internal);

	return impl && streq(impl->driver, alg->driver_name + internal);
}

static bool is_better(const struct crypto_alg *alg, const struct crypto_alg *than)
{
	const bool fastest = is_fastest(alg);

	if (!than || fastest != is_fastest(than))
		return !than || fastest;
	return alg->priority > than->priority;
}

/* Finds the best matching algorithm. Called with algs_lock held. */
static struct crypto_alg *lookup(const char *name, u32 type, u32 mask)
{
	const u32 tiers = cpu_tiers(), now = __atomic_load_n(&model, __ATOMIC_RELAXED);
	struct crypto_alg *alg, *best = NULL;

	for (alg = algs; alg; alg = alg->next) {
		if ((alg->flags ^ type) & mask || !(tiers & 1u << alg->tier) ||
		    !(alg->models & now))
			continue;
		if (streq(alg->driver_name, name))
			return alg;
		if (streq(alg->name, name) && is_better(alg, best))
			best = alg;
	}
	return best;
}

static struct crypto_alg *get_alg(const char *name, u32 type, u32 mask, int *err)
{
	struct crypto_alg *alg;
	bool off;

	/* Return internal algorithms only if the caller asked for them explicitly. */
	if (!((type | mask) & CRYPTO_ALG_INTERNAL))
		mask |= CRYPTO_ALG_INTERNAL;
	off = spin_lock_irqsave(&algs_lock);
	alg = lookup(name, type, mask);
	if (alg)
		alg->users++;
	spin_unlock_irqrestore(&algs_lock, off);
	*err = alg ? 0 : -ENOENT;
	return alg;
}

static void put_alg(struct crypto_alg *alg)
{
	const bool off = spin_lock_irqsave(&algs_lock);
	struct crypto_alg **p;
	bool gone;

	gone = --alg->users == 0 && alg->instance;
	for (p = &algs; gone && *p; p = &(*p)->next) {
		if (*p == alg) {
			*p = alg->next;
			break;
		}
	}
	spin_unlock_irqrestore(&algs_lock, off);
	if (gone)
		crypto_instance_free(alg);
}

void crypto_alg_get(struct crypto_alg *alg)
{
	const bool off = spin_lock_irqsave(&algs_lock);

	alg->users++;
	spin_unlock_irqrestore(&algs_lock, off);
}

void crypto_instance_free(struct crypto_alg *alg)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(alg->inner); i++)
		if (alg->inner[i])
			put_alg(alg->inner[i]);
	kfree(alg);
}

static struct crypto_alg *new_instance(const char *name, u32 type, u32 mask, int *err)
{
	struct crypto_alg *alg = cryptd_instance(name, type, mask, err);

	if (!alg && *err == -ENOENT)
		alg = seqiv_instance(name, type, mask, err);
	if (!alg && *err == -ENOENT)
		alg = authenc_instance(name, type, mask, err);
	return alg;
}

/*
 * Creates an instance and registers it with a user count of one. If @name mixes algorithm names and
 * driver names, the same instance may already be registered; the function then returns the existing
 * instance.
 */
static struct crypto_alg *add_instance(const char *name, u32 type, u32 mask, int *err)
{
	enum { TRIES = 16 };
	struct crypto_alg *alg = new_instance(name, type, mask, err), *there = NULL;
	int i;

	if (!alg)
		return NULL;
	alg->users = 1;
	/* The last user of an existing instance may free it before lookup() finds it: retry. */
	for (i = 0; i < TRIES && !there; i++) {
		*err = crypto_register_alg(alg);
		if (!*err)
			return alg;
		if (*err != -EEXIST)
			break;
		there = get_alg(alg->driver_name, type, mask, err);
	}
	crypto_instance_free(alg);
	return there;
}

/* Opens a transform of @alg. The transform inherits one user count from the caller. */
static struct crypto_tfm *alloc_tfm(struct crypto_alg *alg, int *err)
{
	struct crypto_tfm *tfm;

	tfm = kmalloc(sizeof(*tfm) + alg->ctxsize);
	if (!tfm) {
		put_alg(alg);
		*err = -ENOMEM;
		return NULL;
	}
	tfm->refcnt = 1;
	tfm->flags = alg->setkey ? CRYPTO_TFM_NEED_KEY : 0;
	tfm->authsize = alg->maxauthsize;
	tfm->alg = alg;
	*err = alg->init ? alg->init(tfm) : 0;
	if (*err) {
		kfree(tfm);
		put_alg(alg);
		return NULL;
	}
	return tfm;
}

struct crypto_tfm *crypto_alloc_tfm(const char *name, u32 type, u32 mask, int *err)
{
	struct crypto_alg *alg = get_alg(name, type, mask, err);

	if (!alg)
		alg = add_instance(name, type, mask, err);
	return alg ? alloc_tfm(alg, err) : NULL;
}

struct crypto_tfm *crypto_spawn_tfm(struct crypto_alg *alg, int *err)
{
	crypto_alg_get(alg);
	return alloc_tfm(alg, err);
}

void crypto_free_tfm(struct crypto_tfm *tfm)
{
	struct crypto_alg *alg;

	if (!tfm || __atomic_sub_fetch(&tfm->refcnt, 1, __ATOMIC_ACQ_REL))
		return;
	alg = tfm->alg;
	if (alg->exit)
		alg->exit(tfm);
	kfree(tfm);
	put_alg(alg);
}

int crypto_setkey(struct crypto_tfm *tfm, const u8 *key, u32 len)
{
	int err;

	if (!tfm->alg->setkey)
		return -ENOSYS;
	err = tfm->alg->setkey(tfm, key, len);
	if (err)
		tfm->flags |= CRYPTO_TFM_NEED_KEY;
	else
		tfm->flags &= ~CRYPTO_TFM_NEED_KEY;
	return err;
}

struct crypto_request *crypto_request_alloc(struct crypto_tfm *tfm, size_t more)
{
	struct crypto_request *req = kmalloc(sizeof(*req) + crypto_tfm_reqsize(tfm) + more);

	if (req)
		req->tfm = tfm;
	return req;
}

int crypto_child_init(struct crypto_tfm *tfm, u32 size)
{
	struct crypto_tfm **const child = crypto_tfm_ctx(tfm);
	int err;

	*child = crypto_spawn_tfm(tfm->alg->inner[0], &err);
	if (!*child)
		return err;
	tfm->reqsize = size + crypto_tfm_reqsize(*child);
	return 0;
}

static int child_setkey(struct crypto_tfm *tfm, const u8 *key, u32 len)
{
	return crypto_setkey(crypto_tfm_child(tfm), key, len);
}

int crypto_aead_setauthsize(struct crypto_tfm *tfm, u32 authsize)
{
	int err;

	if (!authsize || authsize > tfm->alg->maxauthsize)
		return -EINVAL;
	if (tfm->alg->setauthsize) {
		err = tfm->alg->setauthsize(tfm, authsize);
		if (err)
			return err;
	}
	tfm->authsize = authsize;
	return 0;
}

static int child_setauthsize(struct crypto_tfm *tfm, u32 authsize)
{
	return crypto_aead_setauthsize(crypto_tfm_child(tfm), authsize);
}

static void child_exit(struct crypto_tfm *tfm)
{
	crypto_free_tfm(crypto_tfm_child(tfm));
}

void crypto_child_ops(struct crypto_alg *alg, u32 ctxsize, int (*init)(struct crypto_tfm *tfm),
		      int (*encrypt)(struct crypto_request *req),
		      int (*decrypt)(struct crypto_request *req))
{
	alg->ctxsize = ctxsize;
	alg->setkey = child_setkey;
	alg->setauthsize = child_setauthsize;
	alg->encrypt = encrypt;
	alg->decrypt = decrypt;
	alg->init = init;
	alg->exit = child_exit;
}

/*
 * Checks a request. Requests in hardirqs are rejected: a hardirq may interrupt any code, including
 * a request on the same transform.
 */
static __always_inline int check_request(const struct crypto_request *req)
{
	if (WARN_ON(preempt_count() & (NMI_MASK | HARDIRQ_MASK)))
		return -EDEADLK;
	if (unlikely(req->tfm->flags & CRYPTO_TFM_NEED_KEY))
		return -ENOKEY;
	return 0;
}

int crypto_encrypt(struct crypto_request *req)
{
	const int err = check_request(req);

	return unlikely(err) ? err : req->tfm->alg->encrypt(req);
}

int crypto_decrypt(struct crypto_request *req)
{
	const int err = check_request(req);

	if (unlikely(err))
		return err;
	/* Decryption input must be at least as long as the tag. */
	if (unlikely(req->cryptlen < req->tfm->authsize))
		return -EINVAL;
	return req->tfm->alg->decrypt(req);
}

void crypto_req_done(void *data, int err)
{
	struct crypto_wait *wait = data;

	/*
	 * -EINPROGRESS means that a backlogged request has entered the queue. Wait for the second
	 * call, which has the result.
	 */
	if (err == -EINPROGRESS)
		return;
	wait->err = err;
	__atomic_store_n(&wait->done, true, __ATOMIC_RELEASE);
	if (wait->task)
		wake_up(wait->task);
}

int crypto_wait_req(int err, struct crypto_wait *wait)
{
	bool off;

	if (err != -EINPROGRESS && err != -EBUSY)
		return err;
	off = local_irq_save();
	wait->task = current;
	while (!__atomic_load_n(&wait->done, __ATOMIC_ACQUIRE)) {
		current->state = TASK_SLEEPING;
		schedule();
	}
	local_irq_restore(off);
	wait->done = false;
	wait->task = NULL;
	return wait->err;
}
