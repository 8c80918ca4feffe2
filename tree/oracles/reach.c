// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Reach: instantiates every registered template over every child that it accepts, so that the
 * oracles can examine instances that no test allocates by name. The tree's own build compiles this
 * file, like glue.c.
 *
 * Children are drivers. They are tried by their own names and by the names of their algorithms. All
 * drivers are tried, because only the template decides which of them fit. Instances over the usual
 * primitives become children in the next round; other instances do not, because the number of
 * combinations is unlimited. A template that accepts no single child is tried with pairs of
 * children. After a pair has been found to fit, every other child is tried in either position.
 */
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <crypto/aead.h>
#include <crypto/algapi.h>
#include <crypto/hash.h>
#include <crypto/skcipher.h>
#include <../crypto/internal.h>

#include "kiln/tree.h"

#define MOST 4096
#define TEMPLATES 64

void kiln_tell_subject(const char *name, const char *alg, const char *driver, unsigned int type,
		       bool is_async, bool internal);
void kiln_tell_unreached(const char *name, const char *why);
void kiln_subject_is(const char *oracle, const char *driver);
u64 kiln_glue_reach(struct kiln_reach *reach);

struct kiln_child {
	char name[CRYPTO_MAX_ALG_NAME];		/* name under which to allocate the child */
	char alg[CRYPTO_MAX_ALG_NAME];
	char driver[CRYPTO_MAX_ALG_NAME];
	int type;		/* one of enum kiln_type, or -1 for a single-block cipher */
	bool is_async, internal;
	bool is_child;		/* whether to try this driver as a child of templates */
	bool is_seed;		/* whether to use this driver when looking for pairs */
	const struct crypto_template *of;
};

static struct kiln_child *kiln_children;
static unsigned int kiln_count;

struct kiln_tried {
	const struct crypto_template *template;
	unsigned int made, tried;
	unsigned int loops;	/* number of attempts refused with -ELOOP */
	int error;		/* last error; -ENOENT only if no other occurred */
	char pair[2][CRYPTO_MAX_ALG_NAME];	/* a pair that fits; empty until one is found */
	int type;		/* type of the pair's first child */
};

static struct kiln_tried kiln_tried[TEMPLATES];
static const char *const *kiln_skipped;

static int kiln_child_type(u32 flags)
{
	switch (flags & CRYPTO_ALG_TYPE_MASK) {
	case CRYPTO_ALG_TYPE_CIPHER:
		return -1;
#ifdef CRYPTO_ALG_TYPE_LSKCIPHER
	case CRYPTO_ALG_TYPE_LSKCIPHER:
#endif
	case CRYPTO_ALG_TYPE_SKCIPHER:
		return KILN_TYPE_SKCIPHER;
	case CRYPTO_ALG_TYPE_AEAD:
		return KILN_TYPE_AEAD;
	case CRYPTO_ALG_TYPE_SHASH:
	case CRYPTO_ALG_TYPE_AHASH:
		return KILN_TYPE_HASH;
	}
	return -2;
}

static struct kiln_child *kiln_find_driver(const char *driver)
{
	unsigned int i;

	for (i = 0; i < kiln_count; i++)
		if (!strcmp(kiln_children[i].driver, driver))
			return &kiln_children[i];
	return NULL;
}

/* Adds a driver. Returns NULL if the driver was added before, or if no oracle examines its type. */
static struct kiln_child *kiln_add(const struct crypto_alg *alg, const char *name)
{
	const int type = kiln_child_type(alg->cra_flags);
	struct kiln_child *child = kiln_children + kiln_count;

	if (type < -1 || kiln_count == MOST || kiln_find_driver(alg->cra_driver_name))
		return NULL;
	kiln_count++;
	strscpy(child->name, name, sizeof(child->name));
	strscpy(child->alg, alg->cra_name, sizeof(child->alg));
	strscpy(child->driver, alg->cra_driver_name, sizeof(child->driver));
	child->type = type;
	child->is_async = !!(alg->cra_flags & CRYPTO_ALG_ASYNC);
	child->internal = !!(alg->cra_flags & CRYPTO_ALG_INTERNAL);
	if (child->type < 0)
		kiln_tell_unreached(child->driver,
				    "a cipher of single blocks, examined in the templates over it");
	else
		kiln_tell_subject(child->name, child->alg, child->driver, child->type,
				  child->is_async, child->internal);
	return child;
}

/*
 * Returns whether the algorithm uses AES or SHA-256, the primitives for which all modes are
 * defined.
 */
static bool kiln_is_usual(const char *alg)
{
	return strstr(alg, "aes") || strstr(alg, "sha256");
}

/*
 * Returns whether an instance is used as a child of other templates. Each template contributes its
 * instances over usual primitives, one per algorithm name. If the template's first instance is of
 * another kind, it is used too. A template that takes pairs contributes only its first instance,
 * because each child of the pair has already been tried on its own.
 */
static bool kiln_is_representative(const struct kiln_child *child)
{
	const bool by_name = kiln_is_usual(child->alg) && !strchr(child->alg, ',');
	unsigned int i;

	if (strlen(child->driver) > 80)
		return false;
	for (i = 0; i < kiln_count; i++) {
		const struct kiln_child *other = &kiln_children[i];

		if (other == child || !other->is_child || other->of != child->of ||
		    other->is_async != child->is_async)
			continue;
		if (!by_name || !strcmp(other->alg, child->alg))
			return false;
	}
	return true;
}

/*
 * Adds new algorithms, which are at the head of the tree's list. The name of an instance may differ
 * from the name it was allocated by.
 */
static bool kiln_add_new(struct kiln_tried *tried)
{
	struct crypto_alg *alg;
	bool added = false;

	list_for_each_entry(alg, &crypto_alg_list, cra_list) {
		struct kiln_child *child;

		if (alg->cra_flags & (CRYPTO_ALG_LARVAL | CRYPTO_ALG_DEAD))
			continue;
		if (kiln_child_type(alg->cra_flags) < -1)
			continue;
		/*
		 * Stop at the first known entry: all entries after it are older and have been
		 * added.
		 */
		if (kiln_find_driver(alg->cra_driver_name))
			break;
		child = kiln_add(alg, alg->cra_driver_name);
		if (!child)
			break;
		added = true;
		child->of = tried->template;
		child->is_child = kiln_is_representative(child);
		child->is_seed = child->is_child && !strchr(child->alg, ',');
	}
	return added;
}

static void kiln_try(struct kiln_tried *tried, const char *inner, int type)
{
	static const u32 types[] = { CRYPTO_ALG_TYPE_SKCIPHER, CRYPTO_ALG_TYPE_AEAD,
				     CRYPTO_ALG_TYPE_AHASH };
	/*
	 * Bit 0 of the type distinguishes an lskcipher from a skcipher and an shash from an ahash;
	 * the masks clear it, so that either matches. Kernels before 6.7 have no lskciphers, and
	 * their cryptd accepts a skcipher only if all bits of the mask are set.
	 */
#ifdef CRYPTO_ALG_TYPE_LSKCIPHER
	static const u32 masks[] = { 0xe, 0xf, 0xe };
#else
	static const u32 masks[] = { 0xf, 0xf, 0xe };
#endif
	char name[CRYPTO_MAX_ALG_NAME], again[CRYPTO_MAX_ALG_NAME];
	const char *const *skipped;
	struct crypto_alg *alg;
	bool made;

	if (snprintf(name, sizeof(name), "%s(%s)", tried->template->name, inner) >=
	    (int)sizeof(name))
		return;
	/*
	 * Do not use a template twice in a chain. For example, an IV generator over an IV generator
	 * makes no sense.
	 */
	snprintf(again, sizeof(again), "%s(", tried->template->name);
	if (strstr(inner, again))
		return;
	tried->tried++;
	for (skipped = kiln_skipped; *skipped; skipped++)
		if (!strcmp(*skipped, name))
			return;
	/* If the process crashes from here on, the report names this instance. */
	kiln_subject_is("reach", name);
	alg = crypto_alg_mod_lookup(name, 0, 0);
	/* Some templates return an instance of the requested type, so request the child's type. */
	if (IS_ERR(alg) && type >= 0)
		alg = crypto_alg_mod_lookup(name, types[type], masks[type]);
	made = !IS_ERR(alg);
	if (made)
		crypto_mod_put(alg);
	else if (PTR_ERR(alg) != -ENOENT || !tried->error)
		tried->error = PTR_ERR(alg);
	tried->loops += alg == ERR_PTR(-ELOOP);
	kiln_subject_is("", "");
	made |= kiln_add_new(tried);
	tried->made += made;
}

static bool kiln_try_pair(struct kiln_tried *tried, const char *a, const char *b, int type)
{
	char inner[2 * CRYPTO_MAX_ALG_NAME];
	const unsigned int made = tried->made;

	snprintf(inner, sizeof(inner), "%s,%s", a, b);
	kiln_try(tried, inner, type);
	return tried->made > made;
}

/* Finds a pair of algorithm names that the template accepts. The template chooses the drivers. */
static void kiln_find_pair(struct kiln_tried *tried)
{
	/*
	 * Pairs to try first. The members of a pair that fits become the fixed partners in later
	 * pairs, and those of the most common pair accept keys of common sizes. A search cannot
	 * find poly1305 in current kernels, because it is a library function there, and rfc7539
	 * only compares the name.
	 */
	static const struct {
		const char *a, *b;
		int type;
	} usual[] = {
		{ "hmac(sha256)", "cbc(aes)", KILN_TYPE_HASH },
		{ "chacha20", "poly1305", KILN_TYPE_SKCIPHER },
	};
	const unsigned int count = kiln_count;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(usual) && !tried->pair[0][0]; i++) {
		if (!kiln_try_pair(tried, usual[i].a, usual[i].b, -1))
			continue;
		strscpy(tried->pair[0], usual[i].a, sizeof(tried->pair[0]));
		strscpy(tried->pair[1], usual[i].b, sizeof(tried->pair[1]));
		tried->type = usual[i].type;
	}
	/* Search from the end of the array, because instances such as HMAC and CBC are there. */
	for (i = count; i-- && !tried->pair[0][0];) {
		const struct kiln_child *a = &kiln_children[i];

		for (j = count; j-- && a->is_seed && !tried->pair[0][0];) {
			const struct kiln_child *b = &kiln_children[j];

			if (!b->is_seed || !kiln_try_pair(tried, a->alg, b->alg, a->type))
				continue;
			tried->type = a->type;
			strscpy(tried->pair[0], a->alg, sizeof(tried->pair[0]));
			strscpy(tried->pair[1], b->alg, sizeof(tried->pair[1]));
		}
	}
}

/* Tries each child, starting at index @from, in both positions of the pair that fits. */
static void kiln_try_pairs(struct kiln_tried *tried, unsigned int from)
{
	const unsigned int count = kiln_count;
	unsigned int i;

	for (i = from; i < count; i++) {
		const struct kiln_child *child = &kiln_children[i];

		if (!child->is_child || child->internal)
			continue;
		kiln_try_pair(tried, child->driver, tried->pair[1], child->type);
		kiln_try_pair(tried, tried->pair[0], child->driver, tried->type);
	}
}

static void kiln_try_alone(struct kiln_tried *tried, unsigned int from)
{
	const unsigned int count = kiln_count;
	unsigned int i;

	for (i = from; i < count; i++) {
		const struct kiln_child *child = &kiln_children[i];

		if (!child->is_child || child->internal)
			continue;
		kiln_try(tried, child->driver, child->type);
		if (child->is_seed && strcmp(child->alg, child->driver))
			kiln_try(tried, child->alg, child->type);
	}
}

static void kiln_tell_templates(void)
{
	char why[128];
	unsigned int i;

	for (i = 0; i < TEMPLATES && kiln_tried[i].template; i++) {
		const struct kiln_tried *tried = &kiln_tried[i];

		/*
		 * The tree itself rejects chains of its generic modes. It returns -ELOOP from
		 * lskcipher_alloc_instance_simple().
		 */
		if (tried->loops) {
			snprintf(why, sizeof(why),
				 "over %u instances of other modes, which the tree refuses with -ELOOP",
				 tried->loops);
			kiln_tell_unreached(tried->template->name, why);
		}
		if (tried->made)
			continue;
		snprintf(why, sizeof(why), "refuses all of %u children that were tried: %d",
			 tried->tried, tried->error);
		kiln_tell_unreached(tried->template->name, why);
	}
}

/*
 * Marks the children to try in pairs. For each algorithm that uses a usual primitive or is not a
 * template instance, this is the first driver. A single-block cipher is marked only if it is a
 * usual primitive.
 */
static void kiln_mark_seeds(void)
{
	unsigned int i, j;

	for (i = 0; i < kiln_count; i++) {
		struct kiln_child *child = &kiln_children[i];

		for (j = 0; j < i; j++)
			if (!strcmp(kiln_children[j].alg, child->alg))
				break;
		child->is_seed = j == i && !child->internal &&
				 (kiln_is_usual(child->alg) ||
				  (child->type >= 0 && !strchr(child->alg, '(')));
	}
}

u64 kiln_glue_reach(struct kiln_reach *reach)
{
	struct list_head *templates = reach->templates;
	struct crypto_template *template;
	struct crypto_alg *alg;
	unsigned int i, from = 0, count = 0;
	int round;

	kiln_skipped = reach->skipped;
	kiln_children = kcalloc(MOST, sizeof(*kiln_children), GFP_KERNEL);
	if (!kiln_children)
		return ENOMEM;
	list_for_each_entry_reverse(alg, &crypto_alg_list, cra_list) {
		struct kiln_child *child;

		if (alg->cra_flags & (CRYPTO_ALG_LARVAL | CRYPTO_ALG_DEAD))
			continue;
		child = kiln_add(alg, alg->cra_driver_name);
		if (child)
			child->is_child = true;
		else if (kiln_child_type(alg->cra_flags) < -1)
			kiln_tell_unreached(alg->cra_driver_name,
					    "neither a cipher nor a hash");
	}
	kiln_mark_seeds();
	list_for_each_entry(template, templates, list)
		if (count < TEMPLATES)
			kiln_tried[count++].template = template;
	for (round = 0; round < 3; round++) {
		const unsigned int before = kiln_count;

		for (i = 0; i < count; i++)
			kiln_try_alone(&kiln_tried[i], from);
		for (i = 0; i < count; i++) {
			const bool first = !round && !kiln_tried[i].made;

			if (first)
				kiln_find_pair(&kiln_tried[i]);
			if (kiln_tried[i].pair[0][0])
				kiln_try_pairs(&kiln_tried[i], first ? 0 : from);
		}
		from = before;
	}
	kiln_tell_templates();
	kfree(kiln_children);
	return 0;
}
