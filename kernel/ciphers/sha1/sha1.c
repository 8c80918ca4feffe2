// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * SHA-1: the list of implementations.
 */
#include "../list.h"
#include "sha1.h"

MD_INIT(sha1)
SHA1_ALL(MD_TIER)

static const struct kiln_impl impls[] = {
	SHA1_ALL(MD_IMPL)
};

KILN_IMPLS(sha1_impls, impls);
