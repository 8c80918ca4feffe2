// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * SM3: the list of implementations.
 */
#include "../list.h"
#include "sm3.h"

MD_INIT(sm3)
SM3_ALL(MD_TIER)

static const struct kiln_impl impls[] = {
	SM3_ALL(MD_IMPL)
};

KILN_IMPLS(sm3_impls, impls);
