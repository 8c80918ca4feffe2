// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The implementation that stands in where vector registers cannot be used. */
#include <kiln/cipher.h>
#include <kiln/cpufeature.h>
#include <kiln/abi/cipher.h>
#include <kiln/string.h>

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
