/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tiers: the sets of CPU features that implementations are written for. A tier is usable if
 * the CPU has all of its features, the operating system saves its registers (XCR0), and the
 * mask allows it. A tier includes all lower ones except SHA_NI.
 */
#ifndef KILN_CPUFEATURE_H
#define KILN_CPUFEATURE_H

#include <kiln/types.h>

enum kiln_tier {
	KILN_TIER_GENERIC,	/* general registers only */
	KILN_TIER_AESNI,	/* AES-NI, PCLMULQDQ, SSE4.2 */
	KILN_TIER_SHA_NI,	/* AESNI and the instructions for SHA-1 and SHA-256 */
	KILN_TIER_AVX2,		/* AESNI, AVX2, BMI2 */
	KILN_TIER_VAES_AVX2,	/* AVX2, and VAES and VPCLMULQDQ on ymm */
	KILN_TIER_VAES_AVX512,	/* the same on zmm; AVX-512 F BW DQ VL VBMI VBMI2 IFMA, GFNI */
	KILN_NR_TIERS
};

/* A bit (1 << tier) for each tier that this CPU and operating system support. */
u32 cpu_tiers_present(void);

/* The tiers that are present and that the mask allows; the generic one always is. */
u32 cpu_tiers(void);

/* The name of a feature of @tier that this CPU lacks, for messages; NULL if it has all. */
const char *cpu_tier_lacks(enum kiln_tier tier);

/* Sets the mask of cpu_tiers(). Bits of absent tiers are ignored. */
void cpu_tiers_mask(u32 mask);

static inline bool cpu_has_tier(enum kiln_tier tier)
{
	return cpu_tiers() & (1u << tier);
}

#endif
