/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which tiers (kernel/tiers.def) this CPU can run. A tier is usable if the CPU has all features of
 * the tier, the operating system saves the tier's registers (XCR0), and the mask allows the tier.
 */
#ifndef KILN_CPUFEATURE_H
#define KILN_CPUFEATURE_H

#include <kiln/types.h>

enum kiln_tier {
#define TIER(name, bits, features) KILN_TIER_##name,
#include "../../tiers.def"
	KILN_NR_TIERS
};

/* Returns a bit (1 << tier) for each tier that this CPU and operating system support. */
u32 cpu_tiers_present(void);

/* Returns the width in bits of the widest register of the tiers present: 64, 128, 256 or 512. */
u32 cpu_register_bits(void);

/*
 * Returns the tiers that are present and allowed by the mask. The generic tier is always included.
 */
u32 cpu_tiers(void);

/* Returns the name of a feature of @tier that this CPU lacks, or NULL if it has all features. */
const char *cpu_tier_lacks(enum kiln_tier tier);

/* Sets the mask that cpu_tiers() applies. Bits of absent tiers are ignored. */
void cpu_tiers_mask(u32 mask);

static inline bool cpu_has_tier(enum kiln_tier tier)
{
	return cpu_tiers() & (1u << tier);
}

#endif
