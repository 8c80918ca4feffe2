// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Detects the tiers that this CPU and its operating system support.
 */
#include <kiln/abi/cpu.h>
#include <kiln/cpufeature.h>

struct cpuid {
	u32 reg[4];	/* EAX, EBX, ECX, EDX */
};

enum { EAX, EBX, ECX, EDX };
enum leaf { LEAF_1, LEAF_7, LEAF_XCR0, NR_LEAVES };

static struct cpuid cpuid(u32 leaf, u32 subleaf)
{
	struct cpuid c;

	__asm__ volatile("cpuid"
			 : "=a"(c.reg[EAX]), "=b"(c.reg[EBX]),
			   "=c"(c.reg[ECX]), "=d"(c.reg[EDX])
			 : "a"(leaf), "c"(subleaf));
	return c;
}

static u32 xcr0(void)
{
	u32 low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return low;
}

#define BIT(n) (1u << (n))

/*
 * Required bits in one register of a CPUID leaf. The feature is present if all these bits are set.
 */
struct feature {
	u8 leaf;
	u8 reg;
	u32 bits;
	const char *name;
};

static const struct feature features[] = {
#define FEATURE(id, leaf, reg, bits, name, ...) { leaf, reg, bits, name },
#include "../tiers.def"
};

enum {
#define FEATURE(id, ...) FEATURE_##id,
#include "../tiers.def"
	NR_FEATURES
};
_Static_assert(NR_FEATURES <= 63, "an enumerator has a bit for each feature");

#define HAS(feature) (1ull << FEATURE_##feature)
#define ALL_OF(tier) FEATURES_##tier
enum {
#define TIER(id, bits, features) FEATURES_##id = features,
#include "../tiers.def"
};

static const struct tier {
	u64 features;
	u32 bits;
} tiers[] = {
#define TIER(id, bits, features) { FEATURES_##id, bits },
#include "../tiers.def"
};
_Static_assert(KILN_NR_TIERS <= 32, "masks of tiers have 32 bits");

/* Returns the name of the first feature of @tier, in table order, that is absent. */
const char *cpu_tier_lacks(enum kiln_tier tier)
{
	struct cpuid leaf[NR_LEAVES] = { 0 };
	const u32 highest = cpuid(0, 0).reg[EAX];
	size_t i;

	leaf[LEAF_1] = cpuid(1, 0);
	if (highest >= 7)
		leaf[LEAF_7] = cpuid(7, 0);
	/* Without XSAVE, the operating system saves the FXSAVE state: x87 and xmm. */
	leaf[LEAF_XCR0].reg[EAX] = leaf[LEAF_1].reg[ECX] & BIT(27) ? xcr0() : BIT(0) | BIT(1);

	for (i = 0; i < NR_FEATURES; i++) {
		const struct feature *f = &features[i];

		if (tiers[tier].features >> i & 1 && (leaf[f->leaf].reg[f->reg] & f->bits) != f->bits)
			return f->name;
	}
	return NULL;
}

u32 cpu_tiers_present(void)
{
	static u32 present;
	u32 found = __atomic_load_n(&present, __ATOMIC_RELAXED);
	int t;

	/* Threads may race here, but all of them find the same tiers. */
	if (!found) {
		for (t = 0; t < KILN_NR_TIERS; t++)
			if (!cpu_tier_lacks(t))
				found |= BIT(t);
		__atomic_store_n(&present, found, __ATOMIC_RELAXED);
	}
	return found;
}

u32 cpu_register_bits(void)
{
	const u32 present = cpu_tiers_present();
	u32 bits = 0;
	int t;

	for (t = 0; t < KILN_NR_TIERS; t++)
		if (present & BIT(t) && tiers[t].bits > bits)
			bits = tiers[t].bits;
	return bits;
}

static u32 tiers_mask = ~0u;

u32 cpu_tiers(void)
{
	return cpu_tiers_present() & (__atomic_load_n(&tiers_mask, __ATOMIC_RELAXED) |
				      BIT(KILN_TIER_GENERIC));
}

void cpu_tiers_mask(u32 mask)
{
	__atomic_store_n(&tiers_mask, mask, __ATOMIC_RELAXED);
}

u32 kiln_tiers_present(void) __attribute__((alias("cpu_tiers_present")));
u32 kiln_tiers(void) __attribute__((alias("cpu_tiers")));
void kiln_tiers_mask(u32 mask) __attribute__((alias("cpu_tiers_mask")));

const char *kiln_tier_lacks(u32 tier)
{
	return tier < KILN_NR_TIERS ? cpu_tier_lacks(tier) : "a known tier";
}
