// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * FPU sections. Linux before 6.15 does not allow a section in a softirq that interrupts another
 * section. This file makes such nested sections possible: it saves the registers of the interrupted
 * section to a per-CPU area when the nested section begins, and restores them when it ends. Drivers
 * therefore need neither cryptd nor scalar code in softirqs. The idea is
 * from "x86/fpu: Allow nested in-kernel use of FPU" (see references), but this file works on an
 * unmodified Linux.
 *
 * One area per CPU is enough, because the depth is at most two. Softirqs do not nest. A hardirq
 * that interrupts a nested section cannot open another section: the outer section, which belongs to
 * Linux, is still open, so irq_fpu_usable() returns false. A softirq stays on its CPU: without
 * PREEMPT_RT it is not preempted, and with it, begin_alone() disables preemption.
 *
 * A softirq may also interrupt a task that has claimed the FPU but has not yet saved the user's
 * registers. The user's registers are then live. They are restored unchanged, and the task saves
 * them later.
 */
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/string.h>

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

void kiln_section_init(bool may_nest)
{
}

void kiln_section_exit(void)
{
}

#else

static bool nested = true;
module_param(nested, bool, 0644);
MODULE_PARM_DESC(nested, "in a softirq that interrupts an FPU section, save its registers and use SIMD; 0: use scalar code");

#ifdef KILN_CONTROLS
static bool nested_unsaved;
module_param(nested_unsaved, bool, 0644);
MODULE_PARM_DESC(nested_unsaved, "a control: without saving, which corrupts what is below");

static char *user_unsaved;
module_param(user_unsaved, charp, 0444);
MODULE_PARM_DESC(user_unsaved, "a control: softirqs over the program of this name do not save its "
			       "registers, which corrupts them");

static bool is_saving(void)
{
	return !READ_ONCE(nested_unsaved);
}

static bool spoils_user(void)
{
	return user_unsaved && in_serving_softirq() && !strcmp(current->comm, user_unsaved);
}
#else
static bool is_saving(void)
{
	return true;
}

static bool spoils_user(void)
{
	return false;
}
#endif

struct nest {
	bool open;
	bool saved;	/* whether registers were saved; false only in the controls */
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
MODULE_PARM_DESC(nested_saves, "number of nested sections");

/* Returns whether nested sections are enabled and this is a softirq that has not opened one yet. */
static bool may_nest(void)
{
	return areas && READ_ONCE(nested) && in_serving_softirq() && !in_hardirq() && !in_nmi() &&
	       !this_cpu_read(nests.open);
}

#ifdef CONFIG_CRYPTO_MANAGER_EXTRA_TESTS
/*
 * Returns whether Linux's extra self-tests have disabled SIMD on this CPU. They may do so in any
 * context.
 */
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

/* Opens a section without kernel_fpu_begin(). If @save is true, saves the live registers. */
static void begin_alone(bool save)
{
	static const u32 mxcsr = MXCSR_DEFAULT;

	/*
	 * With PREEMPT_RT a softirq can be preempted, so disable preemption. Softirqs do not
	 * interrupt sections on such a kernel.
	 */
	preempt_disable();
	this_cpu_write(nests.open, true);
	this_cpu_write(nests.saved, save);
	if (save)
		kiln_state_save(this_cpu_ptr(areas));
	asm volatile("ldmxcsr %0" : : "m"(mxcsr));
}

/*
 * may_nest() must be evaluated only once, because the module's parameters can change at any time.
 * If it returned false the second time, kernel_fpu_begin() would overwrite registers of the
 * interrupted section.
 */
bool kiln_section_begin(void)
{
	if (disabled_for_test())
		return false;
	if (irq_fpu_usable()) {
		if (spoils_user())
			begin_alone(false);
		else
			kernel_fpu_begin();
		return true;
	}
	if (!may_nest())
		return false;
	begin_alone(is_saving());
	this_cpu_inc(nests.saves);
	return true;
}

void kiln_section_end(void)
{
	if (!this_cpu_read(nests.open)) {
		kernel_fpu_end();
		return;
	}
	if (this_cpu_read(nests.saved)) {
		u8 *area = this_cpu_ptr(areas);

		kiln_state_restore(area);
		kiln_state_wipe(area);
	}
	this_cpu_write(nests.open, false);
	preempt_enable();
}

void kiln_section_init(bool may_nest)
{
	const u32 size = may_nest ? kiln_state_init() : 0;

	/*
	 * The area must be zero before the first save (see kiln_state_init()). __alloc_percpu()
	 * returns zeroed memory.
	 */
	if (size) {
		areas = __alloc_percpu(size, KILN_STATE_ALIGN);
		if (!areas)
			pr_warn("kiln: no memory to save registers in\n");
	}
	if (!areas) {
		pr_warn("kiln: softirqs that interrupt an FPU section will use scalar code\n");
		nested = false;
	}
}

void kiln_section_exit(void)
{
	free_percpu(areas);
}

#endif
