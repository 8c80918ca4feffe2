/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Each directory's table; a new one is added here and in list.c. */
#ifndef KILN_CIPHERS_LIST_H
#define KILN_CIPHERS_LIST_H

#include <kiln/cipher.h>
#include <kiln/cpufeature.h>

extern const struct kiln_impls aes_modes_impls;
extern const struct kiln_impls xts_impls;
extern const struct kiln_impls ccm_impls;
extern const struct kiln_impls cmac_impls;
extern const struct kiln_impls gcm_impls;
extern const struct kiln_impls polyval_impls;
extern const struct kiln_impls sha1_impls;
extern const struct kiln_impls blake2s_impls;
extern const struct kiln_impls chacha_impls;
extern const struct kiln_impls chachapoly_impls;
extern const struct kiln_impls nhpoly1305_impls;
extern const struct kiln_impls poly1305_impls;
extern const struct kiln_impls sha2_impls;
extern const struct kiln_impls hmac_impls;
extern const struct kiln_impls crc_impls;
extern const struct kiln_impls sm3_impls;

#define KILN_IMPLS(name, table)                                        \
	const struct kiln_impls name = { .impl = table, .count = ARRAY_SIZE(table) }

#endif
