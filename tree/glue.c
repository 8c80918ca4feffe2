// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Kiln's entry points into a kernel tree. The tree's own build compiles this file
 * against the tree's own headers, so that no structure's layout is ever guessed.
 *
 * What it calls outside the tree (kiln_*) is in services/test.c, paravirt.c and Kiln's
 * kernel/cpu.
 */
#include <linux/bug.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/sched.h>
#include <asm/alternative.h>
#include <asm/cpufeature.h>
#include <asm/fpu/api.h>
#include <asm/fpu/types.h>
#include <asm/paravirt.h>
#include <asm/processor.h>
#include <../crypto/internal.h>

u64 kiln_test_begin(const char *driver);
void kiln_test_end(const char *driver, const char *alg, int result, u64 start);
int kiln_test_skipped(const char *driver, bool *skipped);
void kiln_test_reached(const char *driver);
extern char kiln_pv_save_fl[], kiln_pv_irq_disable[], kiln_pv_irq_enable[];
extern char kiln_pv_refused[];

void kiln_glue_setup(u32 tier);
int kiln_glue_vsnprintf(char *text, size_t size, const char *format, va_list args);
int kiln_glue_bug(unsigned long ip, const void *start, const void *stop,
		  const char **file, unsigned int *line);
void kiln_glue_test_internal(void);
typedef void kiln_report_t(const char *name, const char *driver, const char *type,
			   int priority, unsigned int flags);
void kiln_glue_algorithms(const char *driver, kiln_report_t *report);
int __real_alg_test(const char *driver, const char *alg, u32 type, u32 mask);
int __wrap_alg_test(const char *driver, const char *alg, u32 type, u32 mask);

int __real_cpu_has_xfeatures(u64 needed, const char **name);
int __wrap_cpu_has_xfeatures(u64 needed, const char **name);

void *__real_crypto_alloc_tfm_node(const char *name, const struct crypto_type *frontend,
				   u32 type, u32 mask, int node);
void *__wrap_crypto_alloc_tfm_node(const char *name, const struct crypto_type *frontend,
				   u32 type, u32 mask, int node);
struct crypto_tfm *__real_crypto_alloc_base(const char *name, u32 type, u32 mask);
struct crypto_tfm *__wrap_crypto_alloc_base(const char *name, u32 type, u32 mask);

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

/*
 * Kiln's tiers, by number, and the features that a CPU without that tier and those above
 * does not have. The lowest is general registers only, and no extensions of these that
 * came with the tiers. What every x86-64 CPU has the compiler takes for granted where a
 * driver asks by a constant: it stays.
 */
static const struct {
	u8 tier;
	u16 feature;
} kiln_tier_features[] = {
	{ 1, X86_FEATURE_XMM2 },
	{ 1, X86_FEATURE_XMM3 },
	{ 1, X86_FEATURE_SSSE3 },
	{ 1, X86_FEATURE_XMM4_1 },
	{ 1, X86_FEATURE_XMM4_2 },
	{ 1, X86_FEATURE_AES },
	{ 1, X86_FEATURE_PCLMULQDQ },
	{ 1, X86_FEATURE_SHA_NI },
	{ 2, X86_FEATURE_AVX },
	{ 2, X86_FEATURE_AVX2 },
	{ 2, X86_FEATURE_F16C },
	{ 2, X86_FEATURE_FMA },
	{ 2, X86_FEATURE_BMI1 },
	{ 2, X86_FEATURE_BMI2 },
	{ 2, X86_FEATURE_ADX },
	{ 2, X86_FEATURE_VAES },
	{ 2, X86_FEATURE_VPCLMULQDQ },
#ifdef X86_FEATURE_AVX_VNNI
	{ 2, X86_FEATURE_AVX_VNNI },
#endif
#ifdef X86_FEATURE_AVX_IFMA
	{ 2, X86_FEATURE_AVX_IFMA },
#endif
#ifdef X86_FEATURE_SHA512
	{ 2, X86_FEATURE_SHA512 },
#endif
#ifdef X86_FEATURE_SM3
	{ 2, X86_FEATURE_SM3 },
#endif
#ifdef X86_FEATURE_SM4
	{ 2, X86_FEATURE_SM4 },
#endif
	{ 3, X86_FEATURE_GFNI },
	{ 3, X86_FEATURE_AVX512F },
	{ 3, X86_FEATURE_AVX512DQ },
	{ 3, X86_FEATURE_AVX512CD },
	{ 3, X86_FEATURE_AVX512BW },
	{ 3, X86_FEATURE_AVX512VL },
	{ 3, X86_FEATURE_AVX512IFMA },
	{ 3, X86_FEATURE_AVX512VBMI },
	{ 3, X86_FEATURE_AVX512_VBMI2 },
	{ 3, X86_FEATURE_AVX512_VNNI },
	{ 3, X86_FEATURE_AVX512_BITALG },
	{ 3, X86_FEATURE_AVX512_VPOPCNTDQ },
};

/* State that drivers may not ask for. */
static u64 kiln_hidden_xfeatures;

static void kiln_mask_tiers(struct cpuinfo_x86 *c, u32 tier)
{
	size_t i;

	if (tier < 1)
		kiln_hidden_xfeatures |= XFEATURE_MASK_SSE;
	if (tier < 2)
		kiln_hidden_xfeatures |= XFEATURE_MASK_YMM;
	if (tier < 3)
		kiln_hidden_xfeatures |= XFEATURE_MASK_AVX512;
	for (i = 0; i < ARRAY_SIZE(kiln_tier_features); i++)
		if (kiln_tier_features[i].tier > tier)
			kiln_clear(c, kiln_tier_features[i].feature);
}

/* Some drivers ask only this. The FPU core itself saves all there is, masked or not. */
int __wrap_cpu_has_xfeatures(u64 needed, const char **name)
{
	if (!(needed & kiln_hidden_xfeatures))
		return __real_cpu_has_xfeatures(needed, name);
	if (name)
		*name = "masked state";
	return 0;
}

/* The words that stand for a CPUID register, the features that follow from them. */
static void kiln_identify_cpu(struct cpuinfo_x86 *c, u32 tier)
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
	/* Indirect calls go the long way, as on a CPU that cannot do with less. */
	kiln_set(c, X86_FEATURE_RETPOLINE);
#endif
	kiln_set(c, X86_FEATURE_CPUID);

	/* What only ring 0 can do, and protection keys, are not this process's. */
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
	kiln_mask_tiers(c, tier);
	fpu_kernel_cfg.max_features = xcr0;
	fpu_kernel_cfg.default_features = xcr0;
	fpu_user_cfg.max_features = xcr0;
	fpu_user_cfg.default_features = xcr0;
}

static void kiln_set_pv_ops(void)
{
#ifdef CONFIG_PARAVIRT_XXL
	void **slot = (void **)&pv_ops;
	size_t i;

	for (i = 0; i < sizeof(pv_ops) / sizeof(*slot); i++)
		slot[i] = kiln_pv_refused;
	pv_ops.irq.save_fl.func = (void *)kiln_pv_save_fl;
	pv_ops.irq.irq_disable.func = (void *)kiln_pv_irq_disable;
	pv_ops.irq.irq_enable.func = (void *)kiln_pv_irq_enable;
#endif
}

/* @tier: the highest that the tree may see. */
void kiln_glue_setup(u32 tier)
{
	kiln_identify_cpu(&boot_cpu_data, tier);
	kiln_set_pv_ops();
}

int kiln_glue_vsnprintf(char *text, size_t size, const char *format, va_list args)
{
	return vsnprintf(text, size, format, args);
}

/* What the UD2 at @ip means: 0 nothing, 1 a warning, 2 a bug. */
int kiln_glue_bug(unsigned long ip, const void *start, const void *stop,
		  const char **file, unsigned int *line)
{
	const struct bug_entry *bug;

	for (bug = start; (const void *)bug < stop; bug++) {
#ifdef CONFIG_GENERIC_BUG_RELATIVE_POINTERS
		if ((unsigned long)&bug->bug_addr_disp + bug->bug_addr_disp != ip)
			continue;
#ifdef CONFIG_DEBUG_BUGVERBOSE
		*file = (const char *)&bug->file_disp + bug->file_disp;
		*line = bug->line;
#endif
#else
		if (bug->bug_addr != ip)
			continue;
#ifdef CONFIG_DEBUG_BUGVERBOSE
		*file = bug->file;
		*line = bug->line;
#endif
#endif
		return bug->flags & BUGFLAG_WARNING ? 1 : 2;
	}
	return 0;
}

/* The link sends the crypto manager's calls of alg_test here. */
int __wrap_alg_test(const char *driver, const char *alg, u32 type, u32 mask)
{
	bool skipped;
	u64 start;
	int result;

	result = kiln_test_skipped(driver, &skipped);
	if (skipped)
		return result;
	start = kiln_test_begin(driver);
	result = __real_alg_test(driver, alg, type, mask);
	kiln_test_end(driver, alg, result, start);
	return result;
}

/*
 * Likewise allocations by name. A test that never got hold of its driver tested
 * nothing: some are empty, and some pass when the driver cannot be had.
 */
void *__wrap_crypto_alloc_tfm_node(const char *name, const struct crypto_type *frontend,
				   u32 type, u32 mask, int node)
{
	void *tfm = __real_crypto_alloc_tfm_node(name, frontend, type, mask, node);

	if (!IS_ERR(tfm))
		kiln_test_reached(name);
	return tfm;
}

struct crypto_tfm *__wrap_crypto_alloc_base(const char *name, u32 type, u32 mask)
{
	struct crypto_tfm *tfm = __real_crypto_alloc_base(name, type, mask);

	if (!IS_ERR(tfm))
		kiln_test_reached(name);
	return tfm;
}

/*
 * The crypto manager declares internal algorithms tested without a test. They are
 * given the tests of the algorithm they are inside.
 */
void kiln_glue_test_internal(void)
{
	static struct {
		char name[CRYPTO_MAX_ALG_NAME];
		char driver[CRYPTO_MAX_ALG_NAME];
		u32 type;
	} found[512];
	const struct crypto_alg *alg;
	size_t n = 0, i;

	list_for_each_entry_reverse(alg, &crypto_alg_list, cra_list) {
		if (alg->cra_flags & (CRYPTO_ALG_LARVAL | CRYPTO_ALG_DEAD) ||
		    !(alg->cra_flags & CRYPTO_ALG_INTERNAL) || n == ARRAY_SIZE(found))
			continue;
		strscpy(found[n].name, alg->cra_name, sizeof(found[n].name));
		strscpy(found[n].driver, alg->cra_driver_name, sizeof(found[n].driver));
		found[n++].type = (alg->cra_flags & CRYPTO_ALG_TYPE_MASK) | CRYPTO_ALG_INTERNAL;
	}
	for (i = 0; i < n; i++) {
		const char *name = found[i].name;

		/* cryptd instances are tested through their owner, with SIMD off. */
		if (!strncmp(name, "__", 2) && !strncmp(found[i].driver, "__", 2))
			__wrap_alg_test(found[i].driver, name + 2, found[i].type,
					CRYPTO_ALG_INTERNAL);
	}
}

static const char *kiln_type(u32 flags);

static void kiln_report(const struct crypto_alg *alg, kiln_report_t *report)
{
	report(alg->cra_name, alg->cra_driver_name, kiln_type(alg->cra_flags),
	       alg->cra_priority,
	       (!!(alg->cra_flags & CRYPTO_ALG_ASYNC)) |
	       (!!(alg->cra_flags & CRYPTO_ALG_INTERNAL) << 1) |
	       (!!(alg->cra_flags & CRYPTO_ALG_TESTED) << 2));
}

static const char *kiln_type(u32 flags)
{
	switch (flags & CRYPTO_ALG_TYPE_MASK) {
	case CRYPTO_ALG_TYPE_CIPHER:
		return "cipher";
	case CRYPTO_ALG_TYPE_AEAD:
		return "aead";
#ifdef CRYPTO_ALG_TYPE_LSKCIPHER
	case CRYPTO_ALG_TYPE_LSKCIPHER:
		return "lskcipher";
#endif
	case CRYPTO_ALG_TYPE_SKCIPHER:
		return "skcipher";
	case CRYPTO_ALG_TYPE_AKCIPHER:
		return "akcipher";
#ifdef CRYPTO_ALG_TYPE_SIG
	case CRYPTO_ALG_TYPE_SIG:
		return "sig";
#endif
	case CRYPTO_ALG_TYPE_KPP:
		return "kpp";
	case CRYPTO_ALG_TYPE_RNG:
		return "rng";
	case CRYPTO_ALG_TYPE_SHASH:
		return "shash";
	case CRYPTO_ALG_TYPE_AHASH:
		return "ahash";
#ifdef CRYPTO_ALG_TYPE_ACOMPRESS
	case CRYPTO_ALG_TYPE_ACOMPRESS:
		return "acomp";
#endif
#ifdef CRYPTO_ALG_TYPE_SCOMPRESS
	case CRYPTO_ALG_TYPE_SCOMPRESS:
		return "scomp";
#endif
#ifdef CRYPTO_ALG_TYPE_COMPRESS
	case CRYPTO_ALG_TYPE_COMPRESS:
		return "compress";
#endif
	}
	return "other";
}

/* All algorithms, or those of one driver. */
void kiln_glue_algorithms(const char *driver, kiln_report_t *report)
{
	struct crypto_alg *alg;

	down_read(&crypto_alg_sem);
	list_for_each_entry_reverse(alg, &crypto_alg_list, cra_list) {
		if (alg->cra_flags & (CRYPTO_ALG_LARVAL | CRYPTO_ALG_DEAD) ||
		    (driver && strcmp(driver, alg->cra_driver_name)))
			continue;
		kiln_report(alg, report);
	}
	up_read(&crypto_alg_sem);
}

/*
 * Tasks. Kiln makes the memory, the tree says how much, and what is in it at first.
 */
extern const unsigned int kiln_glue_hz;
size_t kiln_glue_task_size(void);
void kiln_glue_new_task(void *memory, const char *name, bool user);
void kiln_glue_fpu_task(struct task_struct *task);	/* fpu.c */
bool kiln_glue_task_sleeps(const void *task);
void kiln_glue_task_runs(void *task);
void kiln_glue_task_state(void *task, int state);

const unsigned int kiln_glue_hz = HZ;

/* The FPU state a task ends in is as large as the CPU says. */
size_t kiln_glue_task_size(void)
{
	return sizeof(struct task_struct) + 16384;
}

void kiln_glue_new_task(void *memory, const char *name, bool user)
{
	struct task_struct *task = memory;

	memset(task, 0, kiln_glue_task_size());
	/* Without user FPU state: nothing to save, nothing to restore. */
	task->flags = PF_KTHREAD;
	if (user)
		kiln_glue_fpu_task(task);
	strscpy(task->comm, name, sizeof(task->comm));
}

bool kiln_glue_task_sleeps(const void *task)
{
	return READ_ONCE(((const struct task_struct *)task)->__state) != TASK_RUNNING;
}

void kiln_glue_task_runs(void *task)
{
	WRITE_ONCE(((struct task_struct *)task)->__state, TASK_RUNNING);
}

/* Before its question is asked: whoever answers then is seen. */
void kiln_glue_task_state(void *task, int state)
{
	smp_store_mb(((struct task_struct *)task)->__state, state);
}

/*
 * Alternatives: instructions that a kernel replaces once it knows its CPU. Applied are
 * those that follow from a feature of boot_cpu_data. Left as compiled are what belongs to
 * the native kernel alone (the tree runs as a paravirtual guest), direct calls in place
 * of those through pv_ops, and a replacement that is longer than its place.
 */
void kiln_glue_alternatives(const void *start, const void *stop, u32 *applied, u32 *left);

static bool kiln_has(u32 feature)
{
	return feature == X86_FEATURE_XENPV ||
	       boot_cpu_data.x86_capability[feature / 32] & 1u << feature % 32;
}

/* 1: to be applied; 0: not on this CPU; -1: never here. */
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

		__memcpy(at, nops[k - 1], k);
		at += k;
		n -= k;
	}
}

/* Before it has patched all returns a kernel warns of those that are left; none is patched here. */
extern char warn_thunk_thunk[] __weak;

static bool kiln_only_warns(const struct alt_instr *a, const u8 *from)
{
	s32 far;

	if (a->replacementlen != 5 || from[0] != 0xe9)
		return false;
	__memcpy(&far, from + 1, sizeof(far));
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

		/* Of several for one place the last that is wanted counts. */
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
			__memcpy(site, from, i->replacementlen);
			/* A jump or a call begins a replacement; a return that is a jump may end it. */
			for (at = 0; at + 5 <= i->replacementlen; at++) {
				if (from[at] != 0xe8 && from[at] != 0xe9)
					continue;
				__memcpy(&far, from + at + 1, sizeof(far));
				if ((at || i->replacementlen != 5) &&
				    from + at + 5 + far != (const u8 *)__x86_return_thunk)
					continue;
				far += (s32)(from - site);
				__memcpy(site + at + 1, &far, sizeof(far));
			}
			kiln_nops(site + i->replacementlen, room - i->replacementlen);
			++*applied;
		}
	}
#ifdef X86_FEATURE_XCOMPACTED
	/* What XSAVEC writes. */
	if (kiln_has(X86_FEATURE_XSAVEC))
		kiln_set(&boot_cpu_data, X86_FEATURE_XCOMPACTED);
#endif
}
