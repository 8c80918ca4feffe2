// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Registers the implementations in ciphers/ with Linux's crypto API, except those that this CPU
 * cannot run. The driver names get the prefix "kiln-", because Linux has drivers with the same
 * names. A driver is registered only if it passes the tests in check.c. It stays registered only if
 * it also passes Linux's own tests.
 *
 * KILN_CONTROLS adds parameters for tests of this module. A module for users must be built without
 * them.
 */
#include <crypto/internal/rng.h>
#include <linux/ctype.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/version.h>

#include "alg.h"
#include "check.h"
#include "live.h"
#include "section.h"

/* By default, use only tiers that have been tried in ring 0, before Linux 6.15 (docs/MODULE.md). */
static char *tiers = "aesni,avx2";
module_param(tiers, charp, 0444);
MODULE_PARM_DESC(tiers, "instruction set tiers to use, or all; default: aesni,avx2, "
			"those that have run in ring 0");

static bool prefer;
module_param(prefer, bool, 0444);
MODULE_PARM_DESC(prefer, "priorities above those of Linux's drivers; otherwise below all of them, "
			 "which are instantiated first");

static unsigned int max_section_us;
module_param(max_section_us, uint, 0444);
MODULE_PARM_DESC(max_section_us, "FPU sections of at most so many microseconds, down to 256 bytes; "
				 "default 0: of at most 4096 bytes");

static bool all;
module_param(all, bool, 0444);
MODULE_PARM_DESC(all, "every algorithm, and scalar drivers, of the tiers in tiers=; default: SIMD "
		      "drivers of what IPsec, dm-crypt, fscrypt and TLS use");

static char *only;
module_param(only, charp, 0444);
MODULE_PARM_DESC(only, "register this only: an algorithm such as xts(aes), or a driver");

#ifdef KILN_CONTROLS
static bool check = true;
module_param(check, bool, 0444);
MODULE_PARM_DESC(check, "test drivers before Linux does; 0 leaves this to Linux's own tests");

static bool unprepared;
module_param(unprepared, bool, 0444);
MODULE_PARM_DESC(unprepared, "a control: neither Linux's drivers nor its default random number "
			     "generator are instantiated first");
#else
enum { check = true, unprepared = false };
#endif

/* Default number of rounds of the nested-section self-test. */
enum { LIVE_ROUNDS = 64 };

static unsigned int live;
module_param(live, uint, 0444);
MODULE_PARM_DESC(live, "save and restore live registers so many times, at most 4096, and log the "
		       "result; default: 64 times, without a log");

/*
 * Priorities above and below those of Linux's own drivers, which range from 100 to several
 * thousand.
 */
enum { PREFERRED = 1000000, LAST = 1 };

static const char *const offered[] __initconst = {
	"cbc(aes)", "ctr(aes)", "gcm(aes)", "hmac(sha256)", "hmac(sha512)",
	"rfc4106(gcm(aes))", "rfc7539(chacha20,poly1305)", "xts(aes)",
};

static const char *const tier_names[] __initconst = {
#define TIER(name, bits, features) #name,
#include "kernel/tiers.def"
};

#define PREFIX "kiln-"

static struct kiln_alg *algs;
static size_t nr_algs, nr_failed;

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

static int register_alg(struct kiln_alg *alg)
{
	switch (alg->impl->kind) {
	case KILN_SKCIPHER:
		return crypto_register_skcipher(&alg->skcipher);
	case KILN_AEAD:
		return crypto_register_aead(&alg->aead);
	default:
		return crypto_register_shash(&alg->shash);
	}
}

static void unregister_alg(struct kiln_alg *alg)
{
	switch (alg->impl->kind) {
	case KILN_SKCIPHER:
		return crypto_unregister_skcipher(&alg->skcipher);
	case KILN_AEAD:
		return crypto_unregister_aead(&alg->aead);
	default:
		crypto_unregister_shash(&alg->shash);
	}
}

/*
 * Linux creates its default random number generator at the first use, usually by the first security
 * association. The generator is never freed, and holds a reference to the hmac(sha512) driver that
 * was preferred when it was created. If that were this module's driver, the module could not be
 * unloaded until a reboot. To prevent this, create the generator now, while Linux's driver is
 * preferred. Since Linux 7.1, only FIPS mode has this generator.
 */
static void __init prepare_rng(void)
{
	if (unprepared) {
		crypto_del_default_rng();
		return;
	}
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 1, 0)
	u8 byte;

	crypto_stdrng_get_bytes(&byte, sizeof(byte));
#else
	if (!crypto_get_default_rng())
		crypto_put_default_rng();
#endif
}

/*
 * Returns whether Linux's own tests of the driver pass. The lookup waits until these tests have
 * finished, and finds only a driver that has passed them.
 */
static bool passes_tests_of_linux(struct kiln_alg *alg)
{
	return crypto_has_alg(base_of(alg)->cra_driver_name, 0, 0);
}

/*
 * Unregisters the driver. The test may hold a reference for a moment after the lookup has returned.
 * If the test does not finish, the driver stays registered until the module is unloaded. Users
 * cannot get it, because Linux does not give them untested drivers.
 */
static void withdraw(struct kiln_alg *alg)
{
	u32 ms;

	for (ms = 0; refcount_read(&base_of(alg)->cra_refcnt) > 1; ms++) {
		if (ms == 1000) {
			alg->registered = true;
			return;
		}
		msleep(1);
	}
	unregister_alg(alg);
}

static const char *__init find_fault(struct kiln_alg *alg)
{
	const char *fault = check ? kiln_check(alg) : NULL;
	int err;

	if (fault)
		return fault;
	if (max_section_us && alg->scalar)
		alg->section_bytes = kiln_bytes_within(alg, max_section_us);
	/*
	 * Linux instantiates templates and loads modules for an algorithm only if no driver for it
	 * is registered. Make Linux do so now. Otherwise, this module's driver could become the
	 * algorithm's only driver although it is not preferred.
	 */
	if (!prefer && !unprepared)
		crypto_has_alg(alg->impl->alg, 0, 0);
	err = register_alg(alg);
	if (err) {
		pr_err("kiln: %s: error %d\n", base_of(alg)->cra_driver_name, err);
		return "Linux does not register it";
	}
	fault = "does not pass the self-tests of Linux";
	if (passes_tests_of_linux(alg)) {
		fault = check ? kiln_check_clone(alg) : NULL;
		if (!fault) {
			alg->registered = true;
			return NULL;
		}
	}
	withdraw(alg);
	return fault;
}

static int __init add(struct kiln_alg *alg, const struct kiln_impl *impl)
{
	struct crypto_alg *base;
	const char *fault;

	alg->impl = impl;
	alg->section_bytes = KILN_SECTION_BYTES;
	if (impl->tier != KILN_TIER_GENERIC) {
		alg->scalar = kiln_best_scalar(impl->alg);
		/*
		 * Without scalar code, the driver would use vector registers where no section is
		 * possible.
		 */
		if (WARN_ON(!alg->scalar))
			return -EINVAL;
	}
	base = base_of(alg);
	if (strscpy(base->cra_name, impl->alg, sizeof(base->cra_name)) < 0 ||
	    snprintf(base->cra_driver_name, sizeof(base->cra_driver_name), PREFIX "%s",
		     impl->driver) >= sizeof(base->cra_driver_name))
		return -ENAMETOOLONG;
	base->cra_priority = prefer ? PREFERRED + impl->priority : LAST + impl->priority / 100;
	base->cra_module = THIS_MODULE;
	setup(alg);
	fault = find_fault(alg);
	if (fault) {
		pr_err("kiln: %s: not offered: it %s\n", base->cra_driver_name, fault);
		nr_failed++;
	}
	return 0;
}

static void remove_all(void)
{
	while (nr_algs) {
		struct kiln_alg *alg = &algs[--nr_algs];

		if (!alg->registered)
			continue;
		unregister_alg(alg);
	}
	kfree(algs);
}

/*
 * Returns whether the parameter `only` is the algorithm's name, or the driver's name with or
 * without the prefix.
 */
static bool __init is_named(const struct kiln_impl *impl)
{
	return !strcmp(only, impl->alg) ||
	       !strcmp(only + str_has_prefix(only, PREFIX), impl->driver);
}

/*
 * Returns whether to register the driver. By default, only SIMD drivers of algorithms in `offered`
 * are registered.
 */
static bool __init is_wanted(const struct kiln_impl *impl)
{
	size_t i;

	if (only)
		return is_named(impl);
	if (all)
		return true;
	for (i = 0; i < ARRAY_SIZE(offered); i++)
		if (!strcmp(offered[i], impl->alg))
			return impl->tier != KILN_TIER_GENERIC;
	return false;
}

/*
 * Returns whether the first @len characters of @word are the tier's name, with hyphens in place of
 * underscores.
 */
static bool __init names_tier(const char *word, size_t len, const char *name)
{
	size_t i;

	for (i = 0; i < len && name[i]; i++)
		if (word[i] != (name[i] == '_' ? '-' : tolower(name[i])))
			return false;
	return i == len && !name[i];
}

/* Returns the tiers that the parameter lists. If a name is unknown, logs the name and returns 0. */
static u32 __init parse_tiers(void)
{
	const char *word = tiers;
	u32 mask = 0;
	size_t i;

	if (!strcmp(tiers, "all"))
		return ~0u;
	while (word) {
		const size_t len = strcspn(word, ",");

		for (i = 0; i < ARRAY_SIZE(tier_names); i++)
			if (names_tier(word, len, tier_names[i]))
				break;
		if (i == ARRAY_SIZE(tier_names)) {
			pr_err("kiln: tiers=%s: '%.*s' is not a tier\n", tiers, (int)len, word);
			return 0;
		}
		mask |= 1u << i;
		word = word[len] ? word + len + 1 : NULL;
	}
	return mask;
}

/*
 * Returns whether live registers survive a nested section on this CPU. If they do not, nested
 * sections must stay off.
 */
static bool __init registers_survive(void)
{
	struct kiln_live result[KILN_LIVE_WIDTHS];
	const u32 rounds = live ?: LIVE_ROUNDS;
	const int n = kiln_live_run(result, rounds);
	bool survive = n > 0;
	int i;

	if (n == -EOPNOTSUPP)
		pr_warn("kiln: this CPU or its kernel does not use XSAVE, which saves registers\n");
	else if (n < 0)
		pr_err("kiln: live: error %d\n", n);
	for (i = 0; i < n; i++) {
		survive &= !result[i].wrong && !result[i].missed;
		if (live || !survive)
			pr_info("kiln: live %s rounds %u wrong %u missed %u cycles %llu %llu\n",
				result[i].width, rounds, result[i].wrong, result[i].missed,
				result[i].least, result[i].median);
	}
	if (n > 0 && !survive)
		pr_err("kiln: this CPU does not restore registers rightly: nested sections are off\n");
	return survive;
}

static int __init add_all(void)
{
	const struct kiln_impl *impl;
	size_t i;
	int err;

	for (i = 0; (impl = kiln_impl(i)); i++) {
		if (!cpu_has_tier(impl->tier) || !is_wanted(impl))
			continue;
		err = add(&algs[nr_algs++], impl);
		if (err)
			return err;
	}
	if (nr_algs)
		return 0;
	pr_err("kiln: no driver has the name in only=%s, a tier in tiers=%s and what it needs of the CPU\n",
	       only ?: "", tiers);
	return -ENOENT;
}

static int __init kiln_init(void)
{
	const u32 mask = parse_tiers();
	int err;

	if (!mask)
		return -EINVAL;
	if (live > KILN_LIVE_ROUNDS) {
		pr_err("kiln: live=%u: at most %d\n", live, KILN_LIVE_ROUNDS);
		return -EINVAL;
	}
	cpu_tiers_mask(mask);
	algs = kcalloc(kiln_impls(), sizeof(*algs), GFP_KERNEL);
	if (!algs)
		return -ENOMEM;
	kiln_section_init(registers_survive());
	prepare_rng();
	err = add_all();
	if (err) {
		remove_all();
		kiln_section_exit();
		return err;
	}
	pr_info("kiln: %zu drivers%s, %zu not offered\n", nr_algs - nr_failed,
		prefer ? ", preferred" : "", nr_failed);
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
