// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * All implementations, by number.
 */
#include "list.h"

#include <kiln/abi/cipher.h>

static const struct kiln_impls *const families[] = {
	&aes_modes_impls,
	&xts_impls,
	&ccm_impls,
	&cmac_impls,
	&gcm_impls,
	&polyval_impls,
	&sha1_impls,
	&blake2s_impls,
	&chacha_impls,
	&chachapoly_impls,
	&nhpoly1305_impls,
	&poly1305_impls,
	&sha2_impls,
	&hmac_impls,
	&crc_impls,
	&sm3_impls,
};

size_t kiln_impls(void)
{
	size_t n = 0, i;

	for (i = 0; i < ARRAY_SIZE(families); i++)
		n += families[i]->count;
	return n;
}

const struct kiln_impl *kiln_impl(size_t n)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(families); i++) {
		if (n < families[i]->count)
			return &families[i]->impl[n];
		n -= families[i]->count;
	}
	return NULL;
}
