// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The tree's view of the CPU: the capability words, which are read from CPUID and reduced by Kiln's
 * tier mask, and the alternatives that these words select. The tree's own build compiles this file,
 * like glue.c.
 */
#include <linux/kernel.h>
#include <linux/string.h>
#include <asm/alternative.h>
#include <asm/cpufeature.h>
#include <asm/fpu/api.h>
#include <asm/fpu/types.h>
#include <asm/fpu/xstate.h>
#include <asm/nospec-branch.h>
#include <asm/processor.h>

#include "kiln/tiers.h"

int __real_cpu_has_xfeatures(u64 needed, const char **name);
int __wrap_cpu_has_xfeatures(u64 needed, const char **name);

void kiln_glue_identify_cpu(struct cpuinfo_x86 *c, u32 tiers, const u16 *hidden);
void kiln_glue_alternatives(const void *start, const void *stop, u32 *applied, u32 *left);

static void kiln_cpuid(u32 leaf, u32 subleaf, u32 *r)
{
	asm volatile("cpuid"
		     : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3])
		     : "a"(leaf), "c"(subleaf));
}

static u64 kiln_xcr0(void)
{
	u32 low, high;

	asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (u64)high << 32 | low;
}

static void kiln_clear(struct cpuinfo_x86 *c, unsigned int feature)
{
	c->x86_capability[feature / 32] &= ~(1u << feature % 32);
}

static void kiln_set(struct cpuinfo_x86 *c, unsigned int feature)
{
	c->x86_capability[feature / 32] |= 1u << feature % 32;
}

/* XSAVE state components that drivers must not see. */
static u64 kiln_hidden_xfeatures;

/* Clears the features that belong only to masked tiers. */
static void kiln_mask_tiers(struct cpuinfo_x86 *c, u32 tiers)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kiln_tier_states); i++)
		if (!(kiln_tier_states[i].tiers & tiers))
			kiln_hidden_xfeatures |= kiln_tier_states[i].xfeatures;
	for (i = 0; i < ARRAY_SIZE(kiln_tier_features); i++)
		if (!(kiln_tier_features[i].tiers & tiers))
			kiln_clear(c, kiln_tier_features[i].feature);
}

/*
 * Hides the XSAVE state components of masked features, because some drivers check for features only
 * with cpu_has_xfeatures(). The FPU core still saves all components, including masked ones.
 */
int __wrap_cpu_has_xfeatures(u64 needed, const char **name)
{
	if (!(needed & kiln_hidden_xfeatures))
		return __real_cpu_has_xfeatures(needed, name);
	if (name)
		*name = "masked state";
	return 0;
}

/* Sets the capability words that CPUID provides, and the features that follow from them. */
void kiln_glue_identify_cpu(struct cpuinfo_x86 *c, u32 tiers, const u16 *hidden)
{
	u32 r[4], highest, signature, family;
	u64 xcr0 = 0;

	kiln_cpuid(0, 0, r);
	highest = r[0];
	c->x86_vendor = r[1] == 0x756e6547 ? X86_VENDOR_INTEL :
			r[1] == 0x68747541 ? X86_VENDOR_AMD : X86_VENDOR_UNKNOWN;
	kiln_cpuid(1, 0, r);
	signature = r[0];
	family = signature >> 8 & 15;
	c->x86 = family == 15 ? family + (signature >> 20 & 255) : family;
	c->x86_model = (signature >> 4 & 15) |
		       (family == 15 || family == 6 ? signature >> 12 & 0xf0 : 0);
	c->x86_stepping = signature & 15;
	c->x86_capability[CPUID_1_EDX] = r[3];
	c->x86_capability[CPUID_1_ECX] = r[2];
	if (r[2] & 1u << 27)
		xcr0 = kiln_xcr0();
	if (highest >= 7) {
		kiln_cpuid(7, 0, r);
		c->x86_capability[CPUID_7_0_EBX] = r[1];
		c->x86_capability[CPUID_7_ECX] = r[2];
		c->x86_capability[CPUID_7_EDX] = r[3];
		kiln_cpuid(7, 1, r);
		c->x86_capability[CPUID_7_1_EAX] = r[0];
	}
	if (highest >= 0xd) {
		kiln_cpuid(0xd, 1, r);
		c->x86_capability[CPUID_D_1_EAX] = r[0];
	}
	kiln_cpuid(0x80000001, 0, r);
	c->x86_capability[CPUID_8000_0001_EDX] = r[3];
	c->x86_capability[CPUID_8000_0001_ECX] = r[2];
	kiln_set(c, X86_FEATURE_ALWAYS);
	kiln_set(c, X86_FEATURE_REP_GOOD);
#if defined(CONFIG_MITIGATION_RETPOLINE) || defined(CONFIG_RETPOLINE)
	/* Use full retpolines, as a kernel does on a CPU that needs them. */
	kiln_set(c, X86_FEATURE_RETPOLINE);
#endif
	kiln_set(c, X86_FEATURE_CPUID);

	/* Clear the features that need ring 0, and protection keys, which Kiln does not use. */
	kiln_clear(c, X86_FEATURE_XSAVES);
	kiln_clear(c, X86_FEATURE_SMAP);
	kiln_clear(c, X86_FEATURE_PKU);
	kiln_clear(c, X86_FEATURE_OSPKE);
#ifdef X86_FEATURE_XFD
	kiln_clear(c, X86_FEATURE_XFD);
#endif
	if ((xcr0 & (XFEATURE_MASK_SSE | XFEATURE_MASK_YMM)) !=
	    (XFEATURE_MASK_SSE | XFEATURE_MASK_YMM)) {
		kiln_clear(c, X86_FEATURE_AVX);
		kiln_clear(c, X86_FEATURE_AVX2);
		kiln_clear(c, X86_FEATURE_VAES);
		kiln_clear(c, X86_FEATURE_VPCLMULQDQ);
	}
	if ((xcr0 & XFEATURE_MASK_AVX512) != XFEATURE_MASK_AVX512) {
		kiln_clear(c, X86_FEATURE_AVX512F);
		kiln_clear(c, X86_FEATURE_AVX512BW);
		kiln_clear(c, X86_FEATURE_AVX512DQ);
		kiln_clear(c, X86_FEATURE_AVX512VL);
		kiln_clear(c, X86_FEATURE_AVX512IFMA);
	}
	kiln_mask_tiers(c, tiers);
	for (; *hidden != U16_MAX; hidden++) {
		kiln_clear(c, *hidden);
		/* If instructions are hidden, hide their register state too. */
		if (*hidden == X86_FEATURE_AVX)
			kiln_hidden_xfeatures |= XFEATURE_MASK_YMM;
		if (*hidden == X86_FEATURE_AVX512F)
			kiln_hidden_xfeatures |= XFEATURE_MASK_AVX512;
	}
	fpu_kernel_cfg.max_features = xcr0;
	fpu_user_cfg.max_features = xcr0;
#ifdef XFEATURE_MASK_XTILE
	/*
	 * A task has AMX state only if it has requested permission, so no task has it by default.
	 */
	xcr0 &= ~(u64)XFEATURE_MASK_XTILE;
#endif
	fpu_kernel_cfg.default_features = xcr0;
	fpu_user_cfg.default_features = xcr0;
}

/*
 * Alternatives are code sequences that a kernel replaces at boot, depending on the features of its
 * CPU. An alternative is applied if boot_cpu_data has its feature. Three kinds are never applied:
 * alternatives for a native kernel only (the tree runs as a paravirtual guest), direct calls that
 * replace calls through pv_ops, and replacements that are longer than the original instructions.
 */
static bool kiln_has(u32 feature)
{
	return feature == X86_FEATURE_XENPV ||
	       boot_cpu_data.x86_capability[feature / 32] & 1u << feature % 32;
}

/*
 * Returns 1 if the alternative must be applied, 0 if this CPU lacks the feature, and -1 if the
 * alternative is never applied.
 */
static int kiln_wanted(const struct alt_instr *a)
{
#ifdef ALTINSTR_FLAG_INV
	const u32 feature = a->cpuid & ~ALTINSTR_FLAG_INV;
	const bool inverted = a->cpuid & ALTINSTR_FLAG_INV;
#else
	const u32 feature = a->cpuid;
	const bool inverted = a->flags & ALT_FLAG_NOT;
#endif
#ifdef ALT_FLAG_DIRECT_CALL
	if (a->flags & ALT_FLAG_DIRECT_CALL)
		return -1;
#endif
	if (feature == X86_FEATURE_XENPV && inverted)
		return -1;
	return feature / 32 < NCAPINTS && kiln_has(feature) != inverted;
}

/* Copies bytes. memcpy() cannot be used, because its own code may be patched here. */
static __always_inline void kiln_copy(void *to, const void *from, size_t n)
{
	asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static void kiln_nops(u8 *at, size_t n)
{
	static const u8 nops[][8] = {
		{ 0x90 },
		{ 0x66, 0x90 },
		{ 0x0f, 0x1f, 0x00 },
		{ 0x0f, 0x1f, 0x40, 0x00 },
		{ 0x0f, 0x1f, 0x44, 0x00, 0x00 },
		{ 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00 },
		{ 0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00 },
		{ 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00 },
	};

	while (n) {
		const size_t k = min_t(size_t, n, 8);

		kiln_copy(at, nops[k - 1], k);
		at += k;
		n -= k;
	}
}

/*
 * A kernel calls this function to warn about a return that is executed after boot but was never
 * patched. Kiln does not patch returns, so the alternative that installs the warning is not
 * applied.
 */
extern char warn_thunk_thunk[] __weak;

static bool kiln_only_warns(const struct alt_instr *a, const u8 *from)
{
	s32 far;

	if (a->replacementlen != 5 || from[0] != 0xe9)
		return false;
	kiln_copy(&far, from + 1, sizeof(far));
	return from + 5 + far == (const u8 *)warn_thunk_thunk;
}

static u8 *kiln_site(const struct alt_instr *a)
{
	return (u8 *)&a->instr_offset + a->instr_offset;
}

void kiln_glue_alternatives(const void *start, const void *stop, u32 *applied, u32 *left)
{
	const struct alt_instr *a = start, *next, *i;

	for (; a < (const struct alt_instr *)stop; a = next) {
		u8 *const site = kiln_site(a);
		size_t room = 0;

		/* If several entries name the same site, the last applicable entry takes effect. */
		for (next = a; next < (const struct alt_instr *)stop && kiln_site(next) == site;
		     next++)
			room = max_t(size_t, room, next->instrlen);
		for (i = a; i < next; i++) {
			const u8 *from = (u8 *)&i->repl_offset + i->repl_offset;
			const int wanted = kiln_wanted(i);
			size_t at;
			s32 far;

			if (wanted < 0 || i->replacementlen > room)
				++*left;
			if (wanted < 1 || i->replacementlen > room || kiln_only_warns(i, from))
				continue;
			kiln_copy(site, from, i->replacementlen);
			/*
			 * Correct relative offsets. A replacement may begin with a jump or a call,
			 * and may end with a return in the form of a jump.
			 */
			for (at = 0; at + 5 <= i->replacementlen; at++) {
				if (from[at] != 0xe8 && from[at] != 0xe9)
					continue;
				kiln_copy(&far, from + at + 1, sizeof(far));
				if ((at || i->replacementlen != 5) &&
				    from + at + 5 + far != (const u8 *)__x86_return_thunk)
					continue;
				far += (s32)(from - site);
				kiln_copy(site + at + 1, &far, sizeof(far));
			}
			kiln_nops(site + i->replacementlen, room - i->replacementlen);
			++*applied;
		}
	}
#ifdef X86_FEATURE_XCOMPACTED
	/* Set the feature bit of the compacted format, because XSAVEC writes that format. */
	if (kiln_has(X86_FEATURE_XSAVEC))
		kiln_set(&boot_cpu_data, X86_FEATURE_XCOMPACTED);
#endif
}
