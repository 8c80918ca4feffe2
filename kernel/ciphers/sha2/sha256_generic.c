// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* SHA-256 in general-purpose registers. */
#include "sha2.h"

/* The round constants (FIPS 180-4, 4.2.2) are the upper halves of SHA-512's. */
#define K(k) (u32)((k) >> 32),
const u32 sha256_k[64] __aligned(64) = {
	SHA2_K(K)
};

typedef u32 word_t;

#define ROUNDS 64
#define SHA2(name) sha256_##name
#define get_word(p) get_be32(p)
#define SIGMA0(a) (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22))
#define SIGMA1(e) (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25))
#define sigma0(w) (ror(w, 7) ^ ror(w, 18) ^ (w) >> 3)
#define sigma1(w) (ror(w, 17) ^ ror(w, 19) ^ (w) >> 10)

#include "sha2_generic.h"

MD_END(sha256, generic)
