// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Algorithms by name, transforms, requests.
 */
#include <kiln/cpufeature.h>
#include <kiln/crypto.h>
#include <kiln/kiln.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>
#include <kiln/slab.h>
#include <kiln/spinlock.h>
#include <kiln/string.h>

static struct skcipher_alg *algs;
static struct spinlock algs_lock;
static u32 model = CRYPTO_MODEL_HELPER;

static bool same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

/* Two drivers of one name are never there under the same model. */
static bool is_taken(const struct skcipher_alg *wanted)
{
	const struct skcipher_alg *alg;

	for (alg = algs; alg; alg = alg->next)
		if (same(alg->driver_name, wanted->driver_name) &&
		    alg->models & wanted->models)
			return true;
	return false;
}

int crypto_register_skcipher(struct skcipher_alg *alg)
{
	bool off;
	int err = 0;

	if (!alg->name[0] || !alg->driver_name[0] || !alg->setkey || !alg->encrypt ||
	    !alg->decrypt)
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

void crypto_model_set(u32 wanted)
{
	__atomic_store_n(&model, wanted, __ATOMIC_RELAXED);
}

/* With algs_lock held. */
static struct skcipher_alg *lookup(const char *name, u32 type, u32 mask)
{
	const u32 tiers = cpu_tiers(), now = __atomic_load_n(&model, __ATOMIC_RELAXED);
	struct skcipher_alg *alg, *best = NULL;

	for (alg = algs; alg; alg = alg->next) {
		if ((alg->flags ^ type) & mask || !(tiers & 1u << alg->tier) ||
		    !(alg->models & now))
			continue;
		if (same(alg->driver_name, name))
			return alg;
		if (same(alg->name, name) && (!best || alg->priority > best->priority))
			best = alg;
	}
	return best;
}

static struct skcipher_alg *get_alg(const char *name, u32 type, u32 mask, int *err)
{
	struct skcipher_alg *alg;
	bool off;

	/* Only who speaks of internal algorithms is given one. */
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

static void put_alg(struct skcipher_alg *alg)
{
	const bool off = spin_lock_irqsave(&algs_lock);
	struct skcipher_alg **p;
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
		kfree(alg);
}

struct crypto_skcipher *crypto_alloc_skcipher(const char *name, u32 type, u32 mask,
					      int *err)
{
	struct skcipher_alg *alg = get_alg(name, type, mask, err);
	struct crypto_skcipher *tfm;

	if (!alg) {
		/* What a template can make is made on demand. */
		alg = cryptd_instance(name, type, mask, err);
		if (!alg)
			return NULL;
		*err = crypto_register_skcipher(alg);
		if (*err) {
			kfree(alg);
			return NULL;
		}
		alg = get_alg(name, type, mask, err);
		if (!alg)
			return NULL;
	}
	tfm = kmalloc(sizeof(*tfm) + alg->ctxsize);
	if (!tfm) {
		put_alg(alg);
		*err = -ENOMEM;
		return NULL;
	}
	tfm->flags = CRYPTO_TFM_NEED_KEY;
	tfm->alg = alg;
	*err = alg->init ? alg->init(tfm) : 0;
	if (*err) {
		kfree(tfm);
		put_alg(alg);
		return NULL;
	}
	return tfm;
}

void crypto_free_skcipher(struct crypto_skcipher *tfm)
{
	struct skcipher_alg *alg;

	if (!tfm)
		return;
	alg = tfm->alg;
	if (alg->exit)
		alg->exit(tfm);
	kfree(tfm);
	put_alg(alg);
}

int crypto_skcipher_setkey(struct crypto_skcipher *tfm, const u8 *key, u32 len)
{
	const int err = tfm->alg->setkey(tfm, key, len);

	if (err)
		tfm->flags |= CRYPTO_TFM_NEED_KEY;
	else
		tfm->flags &= ~CRYPTO_TFM_NEED_KEY;
	return err;
}

/* A hardirq may have come into anything, a request of the same transform included. */
static __always_inline int refused(const struct skcipher_request *req)
{
	if (WARN_ON(preempt_count() & (NMI_MASK | HARDIRQ_MASK)))
		return -EDEADLK;
	if (unlikely(req->tfm->flags & CRYPTO_TFM_NEED_KEY))
		return -ENOKEY;
	return 0;
}

int crypto_skcipher_encrypt(struct skcipher_request *req)
{
	const int err = refused(req);

	return unlikely(err) ? err : req->tfm->alg->encrypt(req);
}

int crypto_skcipher_decrypt(struct skcipher_request *req)
{
	const int err = refused(req);

	return unlikely(err) ? err : req->tfm->alg->decrypt(req);
}

void crypto_req_done(void *data, int err)
{
	struct crypto_wait *wait = data;

	/* Only the turn of a backlogged request has come. */
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
	off = this_cpu_read(irqs_off);
	local_irq_disable();
	wait->task = current;
	while (!__atomic_load_n(&wait->done, __ATOMIC_ACQUIRE)) {
		current->state = TASK_SLEEPING;
		schedule();
	}
	if (!off)
		local_irq_enable();
	wait->done = false;
	wait->task = NULL;
	return wait->err;
}
