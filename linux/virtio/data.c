// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Encrypts messages in CBC mode, and compares each with the result of Linux's generic code. */
#include <linux/err.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <crypto/skcipher.h>

#include "traffic.h"

enum { KEY = 32, IV = 16, LONGEST = 65536 };

#define GENERIC "cbc(aes-generic)"

struct message {
	struct crypto_skcipher *tfm;
	struct skcipher_request *request;
	struct crypto_wait wait;
	struct scatterlist sg;
	unsigned int len;
	u8 *text, *wanted;
	u8 iv[IV];
};

static void close(void *of)
{
	struct message *m = of;

	skcipher_request_free(m->request);
	if (!IS_ERR_OR_NULL(m->tfm))
		crypto_free_skcipher(m->tfm);
	kfree(m->text);
	kfree(m->wanted);
	kfree(m);
}

/* Encrypts in place, so each call first restores the original text. */
static int encrypt(struct message *m)
{
	unsigned int i;

	for (i = 0; i < m->len; i++)
		m->text[i] = i * 7 + (i >> 8);
	memset(m->iv, 3, IV);
	skcipher_request_set_crypt(m->request, &m->sg, &m->sg, m->len, m->iv);
	return crypto_wait_req(crypto_skcipher_encrypt(m->request), &m->wait);
}

static int work(void *of)
{
	struct message *m = of;
	const int err = encrypt(m);

	if (err)
		return err == -EBADMSG ? -EIO : err;
	return memcmp(m->text, m->wanted, m->len) ? -EBADMSG : 0;
}

/* Sets the driver that encrypts all later messages. */
static int use(struct message *m, const char *driver)
{
	u8 key[KEY];

	skcipher_request_free(m->request);
	m->request = NULL;
	if (m->tfm)
		crypto_free_skcipher(m->tfm);
	m->tfm = crypto_alloc_skcipher(driver, 0, 0);
	if (IS_ERR(m->tfm))
		return PTR_ERR(m->tfm);
	m->request = skcipher_request_alloc(m->tfm, GFP_KERNEL);
	if (!m->request)
		return -ENOMEM;
	crypto_init_wait(&m->wait);
	skcipher_request_set_callback(m->request, CRYPTO_TFM_REQ_MAY_BACKLOG, crypto_req_done,
				      &m->wait);
	memset(key, 0x5a, KEY);
	return crypto_skcipher_setkey(m->tfm, key, KEY);
}

static void *open(const char *driver, unsigned int len)
{
	struct message *m;
	int err = -ENOMEM;

	if (!len || len > LONGEST || len % IV)
		return ERR_PTR(-EINVAL);
	m = kzalloc(sizeof(*m), GFP_KERNEL);
	if (!m)
		return ERR_PTR(err);
	m->len = len;
	/* Use kmalloc(), because the device cannot access the stack or the module's data. */
	m->text = kmalloc(len, GFP_KERNEL);
	m->wanted = kmalloc(len, GFP_KERNEL);
	if (!m->text || !m->wanted)
		goto out;
	sg_init_one(&m->sg, m->text, len);
	err = use(m, GENERIC);
	if (!err)
		err = encrypt(m);
	if (err)
		goto out;
	memcpy(m->wanted, m->text, len);
	err = use(m, driver);
	if (!err)
		return m;
out:
	close(m);
	return ERR_PTR(err);
}

const struct traffic cipher_data = {
	.kind = "cipher-data",
	.operations = 1,
	.open = open,
	.work = work,
	.close = close,
};
