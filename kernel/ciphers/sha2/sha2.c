// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * SHA-256 and SHA-512: the list of implementations.
 */
#include "../list.h"
#include "sha2.h"

MD_INIT(sha256_md, sha256)
MD_TIER(sha256_md, sha256, generic)
MD_TIER(sha256_md, sha256, avx2)
MD_TIER(sha256_md, sha256, sha_ni)

MD_INIT(sha512_md, sha512)
MD_TIER(sha512_md, sha512, generic)
MD_TIER(sha512_md, sha512, avx2)
MD_TIER(sha512_md, sha512, avx512)

static const struct kiln_impl impls[] = {
	MD_IMPL(SHA256, sha256, generic, GENERIC, "sha256-generic", 100),
	MD_IMPL(SHA256, sha256, avx2, AVX2, "sha256-avx2", 450),
	MD_IMPL(SHA256, sha256, sha_ni, SHA_NI, "sha256-sha-ni", 500),
	MD_IMPL(SHA512, sha512, generic, GENERIC, "sha512-generic", 100),
	MD_IMPL(SHA512, sha512, avx2, AVX2, "sha512-avx2", 500),
	MD_IMPL(SHA512, sha512, avx512, VAES_AVX512, "sha512-avx512", 700),
};

KILN_IMPLS(sha2_impls, impls);
