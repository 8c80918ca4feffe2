// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Detects the tiers that this CPU and its operating system support.
 */
#include <kiln/abi/cpu.h>
#include <kiln/cpufeature.h>

struct cpuid {
	u32 reg[4];	/* eax, ebx, ecx, edx */
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

/* A requirement of a tier: bits of one register of one CPUID leaf. */
struct requirement {
	u8 tier;
	u8 leaf;
	u8 reg;
	u32 bits;
	const char *name;
};

#define BIT(n) (1u << (n))

/* Intel SDM volume 2A, CPUID; volume 1, 13.3 for XCR0. */
static const struct requirement requirements[] = {
	{ KILN_TIER_AESNI, LEAF_1, ECX, BIT(25), "AES-NI" },
	{ KILN_TIER_AESNI, LEAF_1, ECX, BIT(1), "PCLMULQDQ" },
	{ KILN_TIER_AESNI, LEAF_1, ECX, BIT(9), "SSSE3" },
	{ KILN_TIER_AESNI, LEAF_1, ECX, BIT(19), "SSE4.1" },
	{ KILN_TIER_AESNI, LEAF_1, ECX, BIT(20), "SSE4.2" },
	{ KILN_TIER_SHA_NI, LEAF_7, EBX, BIT(29), "SHA" },
	{ KILN_TIER_AVX2, LEAF_1, ECX, BIT(27), "OSXSAVE" },
	{ KILN_TIER_AVX2, LEAF_XCR0, EAX, BIT(1) | BIT(2),
	  "ymm state saved by the operating system" },
	{ KILN_TIER_AVX2, LEAF_1, ECX, BIT(28), "AVX" },
	{ KILN_TIER_AVX2, LEAF_7, EBX, BIT(5), "AVX2" },
	{ KILN_TIER_AVX2, LEAF_7, EBX, BIT(8), "BMI2" },
	{ KILN_TIER_VAES_AVX2, LEAF_7, ECX, BIT(9), "VAES" },
	{ KILN_TIER_VAES_AVX2, LEAF_7, ECX, BIT(10), "VPCLMULQDQ" },
	{ KILN_TIER_VAES_AVX512, LEAF_XCR0, EAX, BIT(5) | BIT(6) | BIT(7),
	  "zmm state saved by the operating system" },
	{ KILN_TIER_VAES_AVX512, LEAF_7, EBX, BIT(16), "AVX512F" },
	{ KILN_TIER_VAES_AVX512, LEAF_7, EBX, BIT(17), "AVX512DQ" },
	{ KILN_TIER_VAES_AVX512, LEAF_7, EBX, BIT(21), "AVX512-IFMA" },
	{ KILN_TIER_VAES_AVX512, LEAF_7, EBX, BIT(30), "AVX512BW" },
	{ KILN_TIER_VAES_AVX512, LEAF_7, EBX, BIT(31), "AVX512VL" },
	{ KILN_TIER_VAES_AVX512, LEAF_7, ECX, BIT(1), "AVX512-VBMI" },
	{ KILN_TIER_VAES_AVX512, LEAF_7, ECX, BIT(6), "AVX512-VBMI2" },
	{ KILN_TIER_VAES_AVX512, LEAF_7, ECX, BIT(8), "GFNI" },
};

/* SHA-NI is not part of the higher tiers. */
static bool includes_tier(enum kiln_tier tier, enum kiln_tier other)
{
	return other == tier || (other < tier && other != KILN_TIER_SHA_NI);
}

/* The first requirement of @tier, or of a tier that it includes, that is not met. */
const char *cpu_tier_lacks(enum kiln_tier tier)
{
	struct cpuid leaf[NR_LEAVES] = { 0 };
	const u32 highest = cpuid(0, 0).reg[EAX];
	size_t i;

	leaf[LEAF_1] = cpuid(1, 0);
	if (highest >= 7)
		leaf[LEAF_7] = cpuid(7, 0);
	if (leaf[LEAF_1].reg[ECX] & BIT(27))
		leaf[LEAF_XCR0].reg[EAX] = xcr0();

	for (i = 0; i < ARRAY_SIZE(requirements); i++) {
		const struct requirement *r = &requirements[i];

		if (includes_tier(tier, r->tier) &&
		    (leaf[r->leaf].reg[r->reg] & r->bits) != r->bits)
			return r->name;
	}
	return NULL;
}

u32 cpu_tiers_present(void)
{
	static u32 present;
	u32 tiers = __atomic_load_n(&present, __ATOMIC_RELAXED);
	int t;

	/* Threads may race here: all of them find the same. */
	if (!tiers) {
		for (t = 0; t < KILN_NR_TIERS; t++)
			if (!cpu_tier_lacks(t))
				tiers |= BIT(t);
		__atomic_store_n(&present, tiers, __ATOMIC_RELAXED);
	}
	return tiers;
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

u32 kiln_tiers_present(void)
{
	return cpu_tiers_present();
}

u32 kiln_tiers(void)
{
	return cpu_tiers();
}

const char *kiln_tier_lacks(u32 tier)
{
	return tier < KILN_NR_TIERS ? cpu_tier_lacks(tier) : "a known tier";
}

void kiln_tiers_mask(u32 mask)
{
	cpu_tiers_mask(mask);
}
