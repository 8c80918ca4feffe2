// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The list of all implementations, by number. Each folder ciphers/NAME that contains NAME.c is a
 * cipher with the table NAME_impls. kiln-kbuild lists these folders at build time.
 */
#include "list.h"

#include <kiln/abi/cipher.h>
#include <kiln/string.h>

#define CIPHER(folder) extern const struct kiln_impls folder##_impls;
#include <kiln/generated/ciphers.h>
#undef CIPHER

static const struct {
	const char *folder;
	const struct kiln_impls *impls;
} ciphers[] = {
#define CIPHER(folder) { #folder, &folder##_impls },
#include <kiln/generated/ciphers.h>
#undef CIPHER
};

size_t kiln_impls(void)
{
	size_t n = 0, i;

	for (i = 0; i < ARRAY_SIZE(ciphers); i++)
		n += ciphers[i].impls->count;
	return n;
}

const struct kiln_impl *kiln_impl(size_t n)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ciphers); i++) {
		if (n < ciphers[i].impls->count)
			return &ciphers[i].impls->impl[n];
		n -= ciphers[i].impls->count;
	}
	return NULL;
}

const char *kiln_impl_folder(const struct kiln_impl *impl)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ciphers); i++) {
		const struct kiln_impls *impls = ciphers[i].impls;

		if (impl >= impls->impl && impl < impls->impl + impls->count)
			return ciphers[i].folder;
	}
	return NULL;
}

const struct kiln_impl *kiln_best_scalar(const char *alg)
{
	const struct kiln_impl *best = NULL, *impl;
	size_t i;

	for (i = 0; (impl = kiln_impl(i)); i++)
		if (impl->tier == KILN_TIER_GENERIC && streq(impl->alg, alg) &&
		    (!best || impl->priority > best->priority))
			best = impl;
	return best;
}
