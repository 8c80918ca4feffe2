// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* SHA-512 in general-purpose registers. */
#include "sha2.h"

/* The round constants (FIPS 180-4, 4.2.3). */
#define K(k) k,
const u64 sha512_k[80] __aligned(64) = {
	SHA2_K(K)
	0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
	0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
	0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
	0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817,
};

typedef u64 word_t;

#define ROUNDS 80
#define SHA2(name) sha512_##name
#define get_word(p) get_be64(p)
#define SIGMA0(a) (ror(a, 28) ^ ror(a, 34) ^ ror(a, 39))
#define SIGMA1(e) (ror(e, 14) ^ ror(e, 18) ^ ror(e, 41))
#define sigma0(w) (ror(w, 1) ^ ror(w, 8) ^ (w) >> 7)
#define sigma1(w) (ror(w, 19) ^ ror(w, 61) ^ (w) >> 6)

#include "sha2_generic.h"

MD_END(sha512, generic)
