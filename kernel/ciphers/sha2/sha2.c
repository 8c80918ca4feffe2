// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * SHA-256 and SHA-512: the list of implementations.
 */
#include "../list.h"
#include "sha2.h"

MD_INIT(sha256)
SHA256_ALL(MD_TIER)
MD_INIT(sha512)
SHA512_ALL(MD_TIER)

static const struct kiln_impl impls[] = {
	SHA256_ALL(MD_IMPL)
	SHA512_ALL(MD_IMPL)
};

KILN_IMPLS(sha2_impls, impls);
