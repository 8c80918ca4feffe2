// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Every implementation of ciphers/ that this CPU can run, registered with Linux's crypto API
 * under its name with "kiln-" before it: Linux has drivers of the same names.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "alg.h"
#include "live.h"
#include "section.h"

static unsigned int tiers = ~0u;
module_param(tiers, uint, 0444);
MODULE_PARM_DESC(tiers, "mask of tiers to use, by the numbers of enum kiln_tier");

static char *only;
module_param(only, charp, 0444);
MODULE_PARM_DESC(only, "register this only: an algorithm such as xts(aes), or an implementation");

static bool wait;
module_param(wait, bool, 0444);
MODULE_PARM_DESC(wait, "be loaded only when Linux has tested every driver");

static unsigned int live;
module_param(live, uint, 0444);
MODULE_PARM_DESC(live, "so many times: registers saved and restored as over a section, and told of");

static struct kiln_alg *algs;
static size_t nr_algs;

static struct crypto_alg *base_of(struct kiln_alg *alg)
{
	switch (alg->impl->kind) {
	case KILN_SKCIPHER:
		return &alg->skcipher.base;
	case KILN_AEAD:
		return &alg->aead.base;
	default:
		return &alg->shash.base;
	}
}

static void setup(struct kiln_alg *alg)
{
	switch (alg->impl->kind) {
	case KILN_SKCIPHER:
		return kiln_skcipher_setup(alg);
	case KILN_AEAD:
		return kiln_aead_setup(alg);
	default:
		if (!strcmp(alg->impl->alg, "poly1305"))
			return kiln_poly1305_setup(alg);
		if (!strcmp(alg->impl->alg, "crc32c"))
			return kiln_crc32c_setup(alg);
		return kiln_shash_setup(alg);
	}
}

static int add(struct kiln_alg *alg, const struct kiln_impl *impl)
{
	struct crypto_alg *base;
	int err;

	alg->impl = impl;
	if (impl->tier != KILN_TIER_GENERIC)
		alg->scalar = kiln_best_scalar(impl->alg);
	base = base_of(alg);
	if (strscpy(base->cra_name, impl->alg, sizeof(base->cra_name)) < 0 ||
	    snprintf(base->cra_driver_name, sizeof(base->cra_driver_name), "kiln-%s",
		     impl->driver) >= sizeof(base->cra_driver_name))
		return -ENAMETOOLONG;
	base->cra_priority = impl->priority;
	base->cra_module = THIS_MODULE;
	setup(alg);
	switch (impl->kind) {
	case KILN_SKCIPHER:
		err = crypto_register_skcipher(&alg->skcipher);
		break;
	case KILN_AEAD:
		err = crypto_register_aead(&alg->aead);
		break;
	default:
		err = crypto_register_shash(&alg->shash);
	}
	alg->registered = !err;
	if (err)
		pr_err("kiln: %s: not registered: %d\n", base->cra_driver_name, err);
	return err;
}

static void remove_all(void)
{
	while (nr_algs) {
		struct kiln_alg *alg = &algs[--nr_algs];

		if (!alg->registered)
			continue;
		switch (alg->impl->kind) {
		case KILN_SKCIPHER:
			crypto_unregister_skcipher(&alg->skcipher);
			break;
		case KILN_AEAD:
			crypto_unregister_aead(&alg->aead);
			break;
		default:
			crypto_unregister_shash(&alg->shash);
		}
	}
	kfree(algs);
}

/* A look-up waits for the tests of what it finds. */
static void wait_for_tests(void)
{
	size_t i;

	for (i = 0; i < nr_algs; i++)
		crypto_has_alg(base_of(&algs[i])->cra_driver_name, 0, 0);
}

static bool wanted(const struct kiln_impl *impl)
{
	return !only || !strcmp(only, impl->alg) || !strcmp(only, impl->driver);
}

static void tell_live(void)
{
	struct kiln_live result[KILN_LIVE_WIDTHS];
	const int n = kiln_live_run(result, live);
	int i;

	if (n < 0)
		pr_err("kiln: live: %d\n", n);
	for (i = 0; i < n; i++)
		pr_info("kiln: live %s rounds %u wrong %u missed %u cycles %llu %llu\n",
			result[i].width, live, result[i].wrong, result[i].missed, result[i].least,
			result[i].median);
}

static int __init kiln_init(void)
{
	const struct kiln_impl *impl;
	size_t i;
	int err;

	cpu_tiers_mask(tiers);
	kiln_section_init();
	if (live)
		tell_live();
	algs = kcalloc(kiln_impls(), sizeof(*algs), GFP_KERNEL);
	if (!algs) {
		kiln_section_exit();
		return -ENOMEM;
	}
	for (i = 0; (impl = kiln_impl(i)); i++) {
		if (!cpu_has_tier(impl->tier) || !wanted(impl))
			continue;
		err = add(&algs[nr_algs++], impl);
		if (err) {
			remove_all();
			kiln_section_exit();
			return err;
		}
	}
	if (wait)
		wait_for_tests();
	pr_info("kiln: %zu drivers\n", nr_algs);
	return 0;
}

static void __exit kiln_exit(void)
{
	remove_all();
	kiln_section_exit();
}

module_init(kiln_init);
module_exit(kiln_exit);

MODULE_DESCRIPTION("Kiln's ciphers as drivers of the crypto API");
MODULE_LICENSE("Dual MIT/GPL");
