// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * FPU sections: the policy in force, and the clock that times each of them.
 */
#include <kiln/fpu.h>
#include <kiln/kiln.h>
#include <kiln/preempt.h>
#include <kiln/string.h>

const struct fpu_policy *fpu_policy = &fpu_legacy;

static const struct fpu_policy *const policies[] = {
	&fpu_legacy, &fpu_bh_off, &fpu_nested, &fpu_nested_v1, &fpu_preemptible,
	&fpu_none,
};

/*
 * The section clock. Reading the counter takes 38 cycles of the front end. One reading
 * hides behind what the vector units still have to work off, two do not, and twice 38
 * cycles would be more than the shortest sections take. So the clock leaves out sections
 * while they are short, in proportion, and lets each it does time stand for those before
 * it: from six microseconds up every section is timed, and the cost stays near half a
 * per cent of the time in sections, or at two cycles a section.
 *
 * A section begins when its policy begins to open it: from then on something is kept
 * out. If an interrupt came before it was open, what that took is not the section's.
 */
enum { FULL_TIME = 16384, MAX_SKIP = 63 };	/* TSC ticks, sections */

/*
 * The depth first: an interrupt before it may time a section of its own in the same
 * place, and one after it has the next.
 */
static __always_inline void clock_start(struct cpu *cpu, u64 now, u8 irqs_seen)
{
	const u8 depth = cpu->section_depth;

	cpu->section_depth = depth + 1;
	barrier();
	cpu->section_irqs[depth] = cpu->irqs_seen;
	*cpu->witness = cpu->witness_armed;
	if (unlikely(cpu->section_irqs[depth] != irqs_seen))
		now = rdtsc();
	cpu->section_start[depth] = now;
}

static __always_inline void clock_stop(struct cpu *cpu)
{
	const u8 depth = cpu->section_depth - 1;
	const u64 time = rdtsc() - cpu->section_start[depth];
	const u32 skip = FULL_TIME >> (64 - __builtin_clzll(time | 1));
	const bool interrupted = cpu->section_irqs[depth] != cpu->irqs_seen;
	const bool stolen = !interrupted && *cpu->witness != cpu->witness_armed;

	cpu->stats.sections_timed++;
	cpu->stats.sections_interrupted += interrupted;
	cpu->stats.sections_stolen += stolen;
	if (unlikely(time > cpu->section_limit)) {
		cpu->stats.sections_long++;
		cpu->stats.sections_long_witnessed += interrupted || stolen;
	}
	histogram_add(cpu->section_into, time, cpu->section_weight);
	cpu->section_skip = skip < MAX_SKIP ? skip : MAX_SKIP;
	cpu->section_weight = cpu->section_skip + 1;
	barrier();
	cpu->section_start[depth] = 0;
	cpu->section_depth = depth;
}

static __always_inline void this_cpu_depth_add(u8 n)
{
	__asm__ volatile("addb %0, %%gs:%c1"
			 :
			 : "iq"(n), "i"(__builtin_offsetof(struct cpu, section_depth))
			 : "memory", "cc");
}

void kernel_fpu_begin(void)
{
	struct cpu *cpu = this_cpu();

	if (unlikely(!cpu->section_skip)) {
		const u8 irqs_seen = cpu->irqs_seen;
		const u64 now = rdtsc();

		fpu_policy->begin();
		clock_start(cpu, now, irqs_seen);
	} else {
		cpu->section_skip--;
		fpu_policy->begin();
		this_cpu_depth_add(1);
	}
}

void kernel_fpu_end(void)
{
	struct cpu *cpu = this_cpu();

	cpu->stats.sections++;
	if (unlikely(cpu->section_start[cpu->section_depth - 1]))
		clock_stop(cpu);
	else
		this_cpu_depth_add(-1);
	fpu_policy->end();
}

bool irq_fpu_usable(void)
{
	return fpu_policy->usable();
}

bool kiln_fpu_usable(void)
{
	return irq_fpu_usable();
}

bool crypto_simd_usable(void)
{
	return irq_fpu_usable() && !this_cpu_read(simd_disabled_for_test);
}

/* Policies of hosted trees, numbered after Kiln's own. */
static struct fpu_policy foreign[8];
static u32 nr_foreign;

u32 kiln_fpu_policies(void)
{
	return ARRAY_SIZE(policies);
}

static const struct fpu_policy *policy(u32 i)
{
	if (i < ARRAY_SIZE(policies))
		return policies[i];
	i -= ARRAY_SIZE(policies);
	return i < nr_foreign ? &foreign[i] : NULL;
}

const char *kiln_fpu_policy(u32 i)
{
	const struct fpu_policy *p = policy(i);

	return p ? p->name : NULL;
}

void kiln_fpu_policy_set(u32 i)
{
	const struct fpu_policy *p = policy(i);

	if (p)
		fpu_policy = p;
}

int kiln_fpu_policy_add(const struct kiln_fpu_ops *ops)
{
	struct fpu_policy *p = &foreign[nr_foreign];

	if (nr_foreign == ARRAY_SIZE(foreign))
		return -1;
	p->name = ops->name;
	p->begin = ops->begin;
	p->end = ops->end;
	p->usable = ops->usable;
	p->user_restore = ops->user_restore;
	p->switch_to = ops->switch_to;
	return ARRAY_SIZE(policies) + nr_foreign++;
}

/*
 * Sections that a tree opens by itself. It may get their number wrong: what is deeper
 * than sections can be is counted and not timed, and ends that have no beginning are no
 * sections.
 */
void kiln_section_time(struct kiln_section *section)
{
	section->irqs_seen = this_cpu_read(irqs_seen);
	section->now = rdtsc();
}

void kiln_section_enter(const struct kiln_section *section)
{
	struct cpu *cpu = this_cpu();

	if (likely(cpu->section_depth < ARRAY_SIZE(cpu->section_start)))
		clock_start(cpu, section->now, section->irqs_seen);
	else
		this_cpu_depth_add(1);
}

void kiln_section_leave(void)
{
	struct cpu *cpu = this_cpu();
	const u8 depth = cpu->section_depth;

	if (!depth)
		return;
	cpu->stats.sections++;
	if (depth <= ARRAY_SIZE(cpu->section_start) && cpu->section_start[depth - 1])
		clock_stop(cpu);
	else
		this_cpu_depth_add(-1);
}

void kernel_fpu_begin_untimed(void)
{
	fpu_policy->begin();
	this_cpu_depth_add(1);
}

void kernel_fpu_end_untimed(void)
{
	this_cpu_depth_add(-1);
	fpu_policy->end();
}

u64 kiln_fpu_pairs(void *arg)
{
	const struct kiln_fpu_pairs *p = arg;
	u64 n;

	if (p->timed)
		for (n = p->pairs; n; n--) {
			kernel_fpu_begin();
			kernel_fpu_end();
		}
	else
		for (n = p->pairs; n; n--) {
			kernel_fpu_begin_untimed();
			kernel_fpu_end_untimed();
		}
	return 0;
}
