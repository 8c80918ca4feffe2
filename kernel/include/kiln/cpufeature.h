/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tiers: what a CPU can run, in the few steps that implementations are written
 * for, instead of CPUID bits. A tier is usable when the CPU has every feature of
 * it, the operating system saves its registers (XCR0), and the mask allows it.
 * Each has all of those before it, but that no other asks for SHA_NI.
 */
#ifndef KILN_CPUFEATURE_H
#define KILN_CPUFEATURE_H

#include <kiln/types.h>

enum kiln_tier {
	KILN_TIER_GENERIC,	/* general registers only */
	KILN_TIER_AESNI,	/* AES-NI, PCLMULQDQ, SSE4.2 */
	KILN_TIER_SHA_NI,	/* besides: the instructions for SHA-1 and SHA-256 */
	KILN_TIER_AVX2,		/* AES-NI's, and AVX2, BMI2 */
	KILN_TIER_VAES_AVX2,	/* AVX2's, and VAES and VPCLMULQDQ on ymm */
	KILN_TIER_VAES_AVX512,	/* the same on zmm; AVX-512 F BW DQ VL VBMI VBMI2 IFMA, GFNI */
	KILN_NR_TIERS
};

/* Bit (1 << tier) of every tier this CPU and operating system can run. */
u32 cpu_tiers_present(void);

/* Those of them that the mask allows; generic always is. */
u32 cpu_tiers(void);

/*
 * A feature of @tier that this CPU lacks, or NULL: for people, to say why a
 * tier is not there.
 */
const char *cpu_tier_lacks(enum kiln_tier tier);

/* Restrict what cpu_tiers() answers. Bits of absent tiers are ignored. */
void cpu_tiers_mask(u32 mask);

static inline bool cpu_has_tier(enum kiln_tier tier)
{
	return cpu_tiers() & (1u << tier);
}

#endif
