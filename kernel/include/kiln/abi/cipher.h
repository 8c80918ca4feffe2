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
 * ciphers/list.c: the implementations of all algorithms (kiln/cipher.h), by number. NULL
 * after the last.
 */
KILN_EXPORT size_t kiln_impls(void);
KILN_EXPORT const struct kiln_impl *kiln_impl(size_t i);
/* The folder of ciphers/ whose table @impl is in; NULL if none has it. */
KILN_EXPORT const char *kiln_impl_folder(const struct kiln_impl *impl);

#endif
