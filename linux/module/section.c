// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * FPU sections, including one case in which Linux before 6.15 does not allow them: a softirq
 * that interrupts a section. The registers that the interrupted section uses are saved to a
 * per-CPU area and restored at the end, so drivers need no fallback (references: "x86/fpu:
 * Allow nested in-kernel use of FPU"; this works on an unmodified Linux).
 *
 * One area per CPU is enough: softirqs do not nest, and a hardirq over a nested section
 * is not given one. The outer section belongs to Linux, so the depth is two at most. A softirq is
 * not preempted, so the CPU cannot change in between. irq_fpu_usable() answers no to a
 * hardirq, because the interrupted section is still open.
 *
 * A softirq may also come after a task has claimed the FPU and before it has saved the user's
 * registers, which are then live. They are restored unchanged, and the task saves them later.
 */
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/preempt.h>

#include <asm/fpu/api.h>
#include <asm/simd.h>
#include <crypto/internal/simd.h>

#include "section.h"
#include "state.h"

#ifdef CONFIG_UML

bool kiln_section_begin(void)
{
	if (!crypto_simd_usable())
		return false;
	kernel_fpu_begin();
	return true;
}

void kiln_section_end(void)
{
	kernel_fpu_end();
}

void kiln_section_init(void)
{
}

void kiln_section_exit(void)
{
}

#else

static bool nested = true;
module_param(nested, bool, 0644);
MODULE_PARM_DESC(nested, "sections in softirqs over a section; else code in general registers");

#ifdef KILN_CONTROLS
static bool nested_unsaved;
module_param(nested_unsaved, bool, 0644);
MODULE_PARM_DESC(nested_unsaved, "a control: without saving, which corrupts what is below");

static bool is_saving(void)
{
	return !READ_ONCE(nested_unsaved);
}
#else
static bool is_saving(void)
{
	return true;
}
#endif

struct nest {
	bool open;
	bool saved;	/* the registers below: not with nested_unsaved */
	u64 saves;
};

static DEFINE_PER_CPU(struct nest, nests);
static u8 __percpu *areas;

static int saves_get(char *to, const struct kernel_param *param)
{
	u64 saves = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		saves += per_cpu(nests, cpu).saves;
	return sysfs_emit(to, "%llu\n", saves);
}

static const struct kernel_param_ops saves_ops = { .get = saves_get };
module_param_cb(nested_saves, &saves_ops, NULL, 0444);
MODULE_PARM_DESC(nested_saves, "sections that were opened over another one");

/* In a softirq that has not opened a nested section yet. */
static bool may_nest(void)
{
	return areas && READ_ONCE(nested) && in_serving_softirq() && !in_hardirq() && !in_nmi() &&
	       !this_cpu_read(nests.open);
}

#ifdef CONFIG_CRYPTO_MANAGER_EXTRA_TESTS
/* Linux's full tests request code without SIMD in any context. */
static bool disabled_for_test(void)
{
	return this_cpu_read(crypto_simd_disabled_for_test);
}
#else
static bool disabled_for_test(void)
{
	return false;
}
#endif

static void begin_nested(void)
{
	static const u32 mxcsr = MXCSR_DEFAULT;
	const bool save = is_saving();

	/* With PREEMPT_RT a softirq can be preempted, but does not interrupt sections. */
	preempt_disable();
	this_cpu_write(nests.open, true);
	this_cpu_write(nests.saved, save);
	this_cpu_inc(nests.saves);
	if (save)
		kiln_state_save(this_cpu_ptr(areas));
	asm volatile("ldmxcsr %0" : : "m"(mxcsr));
}

/*
 * The parameters can change at any time, so they are read once per section. Asked a second
 * time, may_nest() could answer no to a caller that has been promised a section, and
 * kernel_fpu_begin() would overwrite registers of the interrupted one.
 */
bool kiln_section_begin(void)
{
	if (disabled_for_test())
		return false;
	if (irq_fpu_usable()) {
		kernel_fpu_begin();
		return true;
	}
	if (!may_nest())
		return false;
	begin_nested();
	return true;
}

void kiln_section_end(void)
{
	if (!this_cpu_read(nests.open)) {
		kernel_fpu_end();
		return;
	}
	if (this_cpu_read(nests.saved))
		kiln_state_restore(this_cpu_ptr(areas));
	this_cpu_write(nests.open, false);
	preempt_enable();
}

void kiln_section_init(void)
{
	const u32 size = kiln_state_init();

	if (!size)
		return;
	/* Zeroed, as kiln_state_init() requires before the first save. */
	areas = __alloc_percpu(size, KILN_STATE_ALIGN);
	if (!areas)
		pr_warn("kiln: no memory to save registers in: softirqs will do without SIMD\n");
}

void kiln_section_exit(void)
{
	free_percpu(areas);
}

#endif
