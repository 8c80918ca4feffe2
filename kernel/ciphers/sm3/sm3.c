// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * SM3: the list of implementations.
 */
#include "../list.h"
#include "sm3.h"

MD_INIT(sm3_md, sm3)
MD_TIER(sm3_md, sm3, generic)
MD_TIER(sm3_md, sm3, avx2)
MD_TIER(sm3_md, sm3, avx512)

static const struct kiln_impl impls[] = {
	MD_IMPL(SM3, sm3, generic, GENERIC, "sm3-generic", 100),
	MD_IMPL(SM3, sm3, avx2, AVX2, "sm3-avx2", 500),
	MD_IMPL(SM3, sm3, avx512, VAES_AVX512, "sm3-avx512", 700),
};

KILN_IMPLS(sm3_impls, impls);
