// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Sets keys repeatedly. virtio_crypto has one session per direction for a cipher, and one session
 * for an RSA key. A new key destroys these sessions and creates new ones.
 */
#include <linux/err.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <crypto/akcipher.h>
#include <crypto/skcipher.h>

#include "traffic.h"

enum { AES_KEY = 32, MODULUS = 256 };

struct cipher {
	struct crypto_skcipher *tfm;
	u8 key[AES_KEY];
};

static void cipher_close(void *of)
{
	struct cipher *c = of;

	crypto_free_skcipher(c->tfm);
	kfree(c);
}

static int cipher_work(void *of)
{
	struct cipher *c = of;

	c->key[0]++;
	return crypto_skcipher_setkey(c->tfm, c->key, AES_KEY);
}

static void *cipher_open(const char *driver, unsigned int len)
{
	struct cipher *c = kzalloc(sizeof(*c), GFP_KERNEL);
	int err;

	if (!c)
		return ERR_PTR(-ENOMEM);
	c->tfm = crypto_alloc_skcipher(driver, 0, 0);
	err = PTR_ERR_OR_ZERO(c->tfm);
	if (err) {
		kfree(c);
		return ERR_PTR(err);
	}
	/* Do not count the first call, because it has no sessions to destroy. */
	err = cipher_work(c);
	if (err) {
		cipher_close(c);
		return ERR_PTR(err);
	}
	return c;
}

const struct traffic cipher_sessions = {
	.kind = "cipher-sessions",
	.operations = 4,
	.open = cipher_open,
	.work = cipher_work,
	.close = cipher_close,
};

/*
 * Start of an RSAPublicKey (RFC 8017, A.1.1), which is a sequence of the modulus and the exponent.
 * The exponent is 65537.
 */
static const u8 head[] = { 0x30, 0x82, 0x01, 0x0a, 0x02, 0x82, 0x01, 0x01, 0x00 };
static const u8 exponent[] = { 0x02, 0x03, 0x01, 0x00, 0x01 };

struct akcipher {
	struct crypto_akcipher *tfm;
	u8 key[sizeof(head) + MODULUS + sizeof(exponent)];
};

static void akcipher_close(void *of)
{
	struct akcipher *a = of;

	crypto_free_akcipher(a->tfm);
	kfree(a);
}

/*
 * Sets an RSA key. No message is encrypted with it, so the modulus only has to be odd and of full
 * length.
 */
static int akcipher_work(void *of)
{
	struct akcipher *a = of;

	a->key[sizeof(head) + 1]++;
	return crypto_akcipher_set_pub_key(a->tfm, a->key, sizeof(a->key));
}

static void *akcipher_open(const char *driver, unsigned int len)
{
	struct akcipher *a = kzalloc(sizeof(*a), GFP_KERNEL);
	int err;

	if (!a)
		return ERR_PTR(-ENOMEM);
	memcpy(a->key, head, sizeof(head));
	memset(a->key + sizeof(head), 0xc5, MODULUS);
	memcpy(a->key + sizeof(head) + MODULUS, exponent, sizeof(exponent));
	a->tfm = crypto_alloc_akcipher(driver, 0, 0);
	err = PTR_ERR_OR_ZERO(a->tfm);
	if (err) {
		kfree(a);
		return ERR_PTR(err);
	}
	err = akcipher_work(a);
	if (err) {
		akcipher_close(a);
		return ERR_PTR(err);
	}
	return a;
}

const struct traffic akcipher_sessions = {
	.kind = "akcipher-sessions",
	.operations = 2,
	.open = akcipher_open,
	.work = akcipher_work,
	.close = akcipher_close,
};
