/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The file FOLDER/FOLDER.c of each cipher ends with KILN_IMPLS(FOLDER_impls, table). */
#ifndef KILN_CIPHERS_LIST_H
#define KILN_CIPHERS_LIST_H

#include <kiln/cipher.h>
#include <kiln/cpufeature.h>

#define KILN_IMPLS(name, table)                                        \
	extern const struct kiln_impls name;                           \
	const struct kiln_impls name = { .impl = table, .count = ARRAY_SIZE(table) }

#endif
