// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Builds and parses algorithm names, including templates with their arguments. */
#include <kiln/crypto.h>
#include <kiln/slab.h>
#include <kiln/string.h>

/* Appends @text to @to. Returns false if it does not fit; @to is NUL-terminated in either case. */
static bool append(char to[CRYPTO_MAX_ALG_NAME], const char *text)
{
	u32 n = 0;

	while (to[n])
		n++;
	while (*text && n < CRYPTO_MAX_ALG_NAME - 1)
		to[n++] = *text++;
	to[n] = 0;
	return !*text;
}

int crypto_name_make(char to[CRYPTO_MAX_ALG_NAME], const char *outer, const char *first,
		     const char *second)
{
	memset(to, 0, CRYPTO_MAX_ALG_NAME);
	if (append(to, outer) && append(to, "(") && append(to, first) &&
	    (!second || (append(to, ",") && append(to, second))) && append(to, ")"))
		return 0;
	return -ENAMETOOLONG;
}

/*
 * Returns the length of the template argument at @text, which ends before a comma or before the
 * closing bracket of the enclosing template.
 */
static u32 argument(const char *text)
{
	u32 n, depth = 0;

	for (n = 0; text[n]; n++) {
		if (!depth && (text[n] == ',' || text[n] == ')'))
			break;
		depth += text[n] == '(';
		depth -= text[n] == ')';
	}
	return n;
}

static bool take(char to[CRYPTO_MAX_ALG_NAME], const char **from, char end)
{
	const u32 n = argument(*from);

	if (!n || n >= CRYPTO_MAX_ALG_NAME || (*from)[n] != end)
		return false;
	memset(to, 0, CRYPTO_MAX_ALG_NAME);
	memcpy(to, *from, n);
	*from += n + 1;
	return true;
}

bool crypto_name_split(const char *name, const char *outer, char first[CRYPTO_MAX_ALG_NAME],
		       char second[CRYPTO_MAX_ALG_NAME])
{
	while (*outer && *outer == *name) {
		outer++;
		name++;
	}
	if (*outer || *name++ != '(')
		return false;
	if (!take(first, &name, second ? ',' : ')') || (second && !take(second, &name, ')')))
		return false;
	return !*name;
}

struct crypto_alg *crypto_alg_new(const char *name, const char *driver, const char *prefix)
{
	struct crypto_alg *alg = kmalloc(sizeof(*alg));

	if (alg && append(alg->name, prefix) && append(alg->name, name) &&
	    append(alg->driver_name, prefix) && append(alg->driver_name, driver))
		return alg;
	kfree(alg);
	return NULL;
}

int crypto_alg_add(struct crypto_alg *alg)
{
	const int err = crypto_register_alg(alg);

	if (err)
		kfree(alg);
	return err;
}

struct crypto_alg *crypto_instance(struct crypto_alg *first, const char *outer,
				   struct crypto_alg *second, int *err)
{
	struct crypto_alg *alg = kmalloc(sizeof(*alg));

	*err = -ENOMEM;
	if (!alg)
		return NULL;
	*alg = *first;
	*err = crypto_name_make(alg->name, outer, first->name,
				second ? second->name : NULL);
	if (!*err)
		*err = crypto_name_make(alg->driver_name, outer, first->driver_name,
					second ? second->driver_name : NULL);
	if (*err) {
		kfree(alg);
		return NULL;
	}
	alg->form = CRYPTO_FORM_PLAIN;
	alg->inner[0] = first;
	alg->inner[1] = second;
	crypto_alg_get(first);
	if (second)
		crypto_alg_get(second);
	alg->impl = NULL;
	alg->users = 0;
	alg->instance = true;
	return alg;
}
