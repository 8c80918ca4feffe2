// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * SHA-1: the list of implementations.
 */
#include "../list.h"
#include "sha1.h"

MD_INIT(sha1_md, sha1)
MD_TIER(sha1_md, sha1, generic)
MD_TIER(sha1_md, sha1, sha_ni)

static const struct kiln_impl impls[] = {
	MD_IMPL(SHA1, sha1, generic, GENERIC, "sha1-generic", 100),
	MD_IMPL(SHA1, sha1, sha_ni, SHA_NI, "sha1-sha-ni", 500),
};

KILN_IMPLS(sha1_impls, impls);
