/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The host's interface to ciphers/: the list of implementations.
 */
#ifndef KILN_ABI_CIPHER_H
#define KILN_ABI_CIPHER_H

#include <kiln/cipher.h>
#include <kiln/cpufeature.h>
#include <kiln/types.h>

/*
 * ciphers/list.c: kiln_impls() returns the number of implementations of all algorithms
 * (kiln/cipher.h); kiln_impl() returns an implementation by number, or NULL after the last.
 */
KILN_EXPORT size_t kiln_impls(void);
KILN_EXPORT const struct kiln_impl *kiln_impl(size_t i);
/* Returns the folder of ciphers/ whose table contains @impl, or NULL if none does. */
KILN_EXPORT const char *kiln_impl_folder(const struct kiln_impl *impl);

#endif
