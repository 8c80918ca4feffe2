// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * FPU sections, also where Linux before 6.15 refuses them: in a softirq that has come over a
 * section. The registers in use there are saved to an area of the CPU's and restored at the
 * end, so that drivers need no other way (references: "x86/fpu: Allow nested in-kernel use
 * of FPU", here without a change to Linux).
 *
 * One area a CPU is enough. Softirqs do not nest, and no hardirq is given a section over
 * one: depth is two at most, the outer one's registers are Linux's business. Nothing can
 * take the CPU away meanwhile: a softirq is not preempted. A hardirq that asks Linux is told
 * no, for the section below is still open.
 *
 * Also right between a task's taking the FPU and its saving of the user's registers, which
 * are live then: what is restored is what was found, and the task saves it afterwards.
 */
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/preempt.h>

#include <asm/fpu/api.h>
#include <asm/simd.h>
#include <crypto/internal/simd.h>

#include "section.h"
#include "state.h"

/* For ciphers that open one themselves: <kiln/fpu.h> has these names for begin and end. */
void kiln_fpu_begin(void);
void kiln_fpu_end(void);

void kiln_fpu_begin(void)
{
	kiln_section_begin();
}

void kiln_fpu_end(void)
{
	kiln_section_end();
}

#ifdef CONFIG_UML

bool kiln_section_usable(void)
{
	return crypto_simd_usable();
}

void kiln_section_begin(void)
{
	kernel_fpu_begin();
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

static bool nested_unsaved;
module_param(nested_unsaved, bool, 0644);
MODULE_PARM_DESC(nested_unsaved, "a control: without saving, which corrupts what is below");

struct nest {
	bool open;
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

/* In a softirq, over a section that is not a nested one of its own. */
static bool may_nest(void)
{
	return areas && READ_ONCE(nested) && in_serving_softirq() && !in_hardirq() && !in_nmi() &&
	       !this_cpu_read(nests.open);
}

#ifdef CONFIG_CRYPTO_MANAGER_EXTRA_TESTS
/* Linux's full tests ask for the other way, whatever the context. */
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

bool kiln_section_usable(void)
{
	if (disabled_for_test())
		return false;
	return irq_fpu_usable() || may_nest();
}

void kiln_section_begin(void)
{
	static const u32 mxcsr = MXCSR_DEFAULT;

	if (irq_fpu_usable() || WARN_ON_ONCE(!may_nest())) {
		kernel_fpu_begin();
		return;
	}
	/* A softirq of PREEMPT_RT could be preempted; it does not come over sections, though. */
	preempt_disable();
	this_cpu_write(nests.open, true);
	this_cpu_inc(nests.saves);
	if (!READ_ONCE(nested_unsaved))
		kiln_state_save(this_cpu_ptr(areas));
	asm volatile("ldmxcsr %0" : : "m"(mxcsr));
}

void kiln_section_end(void)
{
	if (!this_cpu_read(nests.open)) {
		kernel_fpu_end();
		return;
	}
	if (!READ_ONCE(nested_unsaved))
		kiln_state_restore(this_cpu_ptr(areas));
	this_cpu_write(nests.open, false);
	preempt_enable();
}

void kiln_section_init(void)
{
	const u32 size = kiln_state_init();

	if (!size)
		return;
	/* Zero, as the first save wants it. */
	areas = __alloc_percpu(size, KILN_STATE_ALIGN);
	if (!areas)
		pr_warn("kiln: no memory to save registers in: softirqs will do without SIMD\n");
}

void kiln_section_exit(void)
{
	free_percpu(areas);
}

#endif
