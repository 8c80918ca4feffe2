// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A separate module for benchmarks. While it is loaded, the skciphers listed in its parameter
 * cannot be allocated. tcrypt measures every mode of AES in turn, one second per row, but skips
 * modes that it cannot allocate.
 */
#include <crypto/internal/skcipher.h>
#include <linux/module.h>
#include <linux/string.h>

enum { MAX = 8 };

static char *names[MAX];
static int nr_names;
module_param_array(names, charp, &nr_names, 0444);
MODULE_PARM_DESC(names, "algorithms to hide, such as ecb(aes)");

static struct skcipher_alg algs[MAX];

static int not_there(struct crypto_skcipher *tfm)
{
	return -ENOENT;
}

static int setkey(struct crypto_skcipher *tfm, const u8 *key, unsigned int len)
{
	return -ENOENT;
}

static int crypt(struct skcipher_request *req)
{
	return -ENOENT;
}

static int __init hide_init(void)
{
	int i;

	for (i = 0; i < nr_names; i++) {
		struct skcipher_alg *alg = &algs[i];

		if (strscpy(alg->base.cra_name, names[i], sizeof(alg->base.cra_name)) < 0 ||
		    snprintf(alg->base.cra_driver_name, sizeof(alg->base.cra_driver_name),
			     "hidden-%d", i) < 0)
			return -ENAMETOOLONG;
		alg->base.cra_priority = INT_MAX;
		alg->base.cra_blocksize = 1;
		alg->base.cra_module = THIS_MODULE;
		alg->init = not_there;
		alg->setkey = setkey;
		alg->encrypt = crypt;
		alg->decrypt = crypt;
	}
	return crypto_register_skciphers(algs, nr_names);
}

static void __exit hide_exit(void)
{
	crypto_unregister_skciphers(algs, nr_names);
}

module_init(hide_init);
module_exit(hide_exit);

MODULE_DESCRIPTION("Hides algorithms from a benchmark");
MODULE_LICENSE("Dual MIT/GPL");
