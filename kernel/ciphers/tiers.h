/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Lists of tiers that several ciphers share, used to generate declarations, functions and tables.
 * Each list calls F(suffix of function names, tier, suffix of the driver's name, priority ...) once
 * per tier.
 */
#ifndef KILN_CIPHERS_TIERS_H
#define KILN_CIPHERS_TIERS_H

/*
 * Tiers of the AES modes. The last argument of F is true if the tier is constant-time. The
 * priorities match Linux 6.12.
 */
#define AES_SCALAR(F)                                                  \
	F(generic, GENERIC, "generic", 100, false)                     \
	F(fixed_time, GENERIC, "fixed-time", 110, true)
#define AES_SIMD(F)                                                    \
	F(aesni, AESNI, "aesni", 400, true)                            \
	F(vaes_avx2, VAES_AVX2, "vaes-avx2", 600, true)                \
	F(vaes_avx512, VAES_AVX512, "vaes-avx512", 800, true)
#define AES_ALL(F) AES_SCALAR(F) AES_SIMD(F)
/* Number of messages encrypted in parallel with CBC, which is serial within a message. */
#define AES_LANES_aesni 8
#define AES_LANES_vaes_avx2 16
#define AES_LANES_vaes_avx512 32

/* Tiers of ChaCha20, Poly1305 and NH; @sse is the driver-name suffix of the lowest SIMD tier. */
#define VECTOR_ALL(F, sse)                                             \
	F(generic, GENERIC, "generic", 100)                            \
	F(aesni, AESNI, sse, 400)                                      \
	F(avx2, AVX2, "avx2", 500)                                     \
	F(vaes_avx512, VAES_AVX512, "avx512", 700)

#endif
