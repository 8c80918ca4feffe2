// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Kiln's entry points into a kernel tree. The tree's own build compiles this file with the tree's
 * own headers, so that structure layouts always match.
 *
 * The functions of Kiln that this file calls (kiln_*) are defined in services/test.c, paravirt.c
 * and Kiln's kernel/cpu.
 */
#include <linux/bug.h>
#include <linux/completion.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/sched.h>
#include <asm/cpufeature.h>
#include <asm/fpu/api.h>
#include <asm/fpu/types.h>
#include <asm/paravirt.h>
#include <asm/processor.h>
/* Older trees declare native_cpuid() in <asm/processor.h>. */
#if __has_include(<asm/cpuid/api.h>)
#include <asm/cpuid/api.h>
#endif
#include <../crypto/internal.h>

u64 kiln_test_begin(const char *driver);
void kiln_test_end(const char *driver, const char *alg, int result, u64 start);
int kiln_test_skipped(const char *driver, bool *skipped);
void kiln_test_reached(const char *driver);
extern char kiln_pv_save_fl[], kiln_pv_irq_disable[], kiln_pv_irq_enable[];
extern char kiln_pv_refused[];

void kiln_glue_setup(u32 tiers, const u16 *hidden);
void kiln_glue_identify_cpu(struct cpuinfo_x86 *c, u32 tiers, const u16 *hidden);
int kiln_glue_vsnprintf(char *text, size_t size, const char *format, va_list args);
int kiln_glue_bug(unsigned long ip, const void *start, const void *stop,
		  const char **file, unsigned int *line);
void kiln_glue_test_internal(void);
typedef void kiln_report_t(const char *name, const char *driver, const char *type,
			   int priority, unsigned int flags);
void kiln_glue_algorithms(const char *driver, kiln_report_t *report);
int __real_alg_test(const char *driver, const char *alg, u32 type, u32 mask);
int __wrap_alg_test(const char *driver, const char *alg, u32 type, u32 mask);

void *__real_crypto_alloc_tfm_node(const char *name, const struct crypto_type *frontend,
				   u32 type, u32 mask, int node);
void *__wrap_crypto_alloc_tfm_node(const char *name, const struct crypto_type *frontend,
				   u32 type, u32 mask, int node);
struct crypto_tfm *__real_crypto_alloc_base(const char *name, u32 type, u32 mask);
struct crypto_tfm *__wrap_crypto_alloc_base(const char *name, u32 type, u32 mask);

void kiln_glue_section_begin(void);
void kiln_glue_section_end(void);

static void kiln_set_pv_ops(void)
{
#ifdef CONFIG_PARAVIRT_XXL
	void **slot = (void **)&pv_ops;
	size_t i;

	for (i = 0; i < sizeof(pv_ops) / sizeof(*slot); i++)
		slot[i] = kiln_pv_refused;
	/* CPUID is unprivileged, so the process can execute it. */
	pv_ops.cpu.cpuid = native_cpuid;
	pv_ops.irq.save_fl.func = (void *)kiln_pv_save_fl;
	pv_ops.irq.irq_disable.func = (void *)kiln_pv_irq_disable;
	pv_ops.irq.irq_enable.func = (void *)kiln_pv_irq_enable;
#endif
}

/* Sets up the CPU's features. @tiers is a bit mask of the tiers visible to the tree. */
void kiln_glue_setup(u32 tiers, const u16 *hidden)
{
	kiln_glue_identify_cpu(&boot_cpu_data, tiers, hidden);
	kiln_set_pv_ops();
}

int kiln_glue_vsnprintf(char *text, size_t size, const char *format, va_list args)
{
	return vsnprintf(text, size, format, args);
}

/* Classifies the UD2 at @ip. Returns 0 if it is unknown, 1 for a warning, and 2 for a bug. */
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

/* Records and times each test. The linker redirects the crypto manager's alg_test() calls here. */
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
 * Record whether a test allocates its driver. Some tests are empty, and some pass although their
 * driver cannot be allocated. The linker redirects allocations by name to these functions.
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
 * Tests each internal algorithm with the tests of the algorithm that it implements. The crypto
 * manager marks internal algorithms as tested without running a test.
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

		/*
		 * Skip cryptd instances. They are tested through the drivers that use them, with
		 * SIMD disabled.
		 */
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

/* Reports the algorithms of @driver, or all registered algorithms if @driver is NULL. */
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

/* Tasks: Kiln allocates a task's memory, and the tree determines its size and contents. */
extern const unsigned int kiln_glue_hz;
size_t kiln_glue_task_size(void);
void kiln_glue_new_task(void *memory, const char *name, bool user);
void kiln_glue_fpu_task(struct task_struct *task);	/* fpu.c */
bool kiln_glue_task_sleeps(const void *task);
void kiln_glue_task_runs(void *task);
void kiln_glue_task_state(void *task, int state);
void kiln_glue_task_ends(void *task);
bool kiln_glue_task_held(const void *task);

const unsigned int kiln_glue_hz = HZ;

/* Returns a task's size. It includes 16 KiB for the FPU state, whose size depends on the CPU. */
size_t kiln_glue_task_size(void)
{
	return sizeof(struct task_struct) + 16384 + sizeof(struct completion);
}

/* Returns the completion that kthread_stop() waits on until the thread exits. */
static struct completion *kiln_task_end(void *memory)
{
	return memory + kiln_glue_task_size() - sizeof(struct completion);
}

void kiln_glue_new_task(void *memory, const char *name, bool user)
{
	struct task_struct *task = memory;

	memset(task, 0, kiln_glue_task_size());
	/* A kthread has no user FPU state for the tree to save or restore. */
	task->flags = PF_KTHREAD;
	if (user)
		kiln_glue_fpu_task(task);
	strscpy(task->comm, name, sizeof(task->comm));
	refcount_set(&task->usage, 1);
	init_completion(kiln_task_end(task));
	task->vfork_done = kiln_task_end(task);
}

void kiln_glue_task_ends(void *task)
{
	complete_all(kiln_task_end(task));
}

/* Returns whether the task's structure has references other than the thread's own. */
bool kiln_glue_task_held(const void *task)
{
	return refcount_read(&((const struct task_struct *)task)->usage) > 1;
}

bool kiln_glue_task_sleeps(const void *task)
{
	return READ_ONCE(((const struct task_struct *)task)->__state) != TASK_RUNNING;
}

void kiln_glue_task_runs(void *task)
{
	WRITE_ONCE(((struct task_struct *)task)->__state, TASK_RUNNING);
}

/*
 * Sets the task's state, followed by a memory barrier. The task checks its condition afterwards, so
 * a wakeup that occurs in between is not lost.
 */
void kiln_glue_task_state(void *task, int state)
{
	smp_store_mb(((struct task_struct *)task)->__state, state);
}

/* Opens an FPU section for code outside the drivers (services/series.c). */
void kiln_glue_section_begin(void)
{
	kernel_fpu_begin();
}

void kiln_glue_section_end(void)
{
	kernel_fpu_end();
}
