// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * FPU sections: the active policy, and the timer that measures sections.
 */
#include <kiln/abi/cpu.h>
#include <kiln/abi/hosted.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/string.h>

const struct fpu_policy *fpu_policy = &fpu_legacy;

static const struct fpu_policy *const policies[] = {
	&fpu_legacy, &fpu_bh_off, &fpu_nested, &fpu_nested_v1, &fpu_preemptible,
	&fpu_none,
};

/*
 * The section timer. RDTSC occupies the front end for 38 cycles. One RDTSC overlaps with work still
 * pending in the vector units, but two do not, and 76 cycles is more than the shortest sections
 * take. The timer therefore samples: the shorter a timed section is, the more sections the timer
 * skips after it. In the histogram, the next timed section then counts for itself and for all
 * skipped ones. After a section of six microseconds or more, none are skipped. The cost is about
 * 0.5% of the time in sections, or two cycles per section.
 *
 * A section's time starts when its policy begins to open it, because preemption or softirqs may be
 * off from then on. If an interrupt arrives before the section is open, the time starts after the
 * interrupt.
 */
enum { FULL_TIME = 16384 };	/* TSC ticks; no section is skipped after one at least this long */

/*
 * Starts timing a section. Raises the depth before it fills the array entry. An interrupt that
 * arrives before the depth is raised may use the same entry for its own section, whereas a later
 * one uses the next entry.
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

/* Updates section_least[n] after the n-th timed section since the last reset, counted from 0. */
static __always_inline void keep_least(struct cpu *cpu, u64 time)
{
	const u64 n = cpu->stats.sections_timed - 1;

	if (n < cpu->section_room && time < cpu->section_least[n])
		cpu->section_least[n] = time;
}

static __always_inline void clock_stop(struct cpu *cpu)
{
	const u8 depth = cpu->section_depth - 1;
	const u64 time = rdtsc() - cpu->section_start[depth];
	/*
	 * Shift by the number of significant bits of @time, in two steps: if the TSC went
	 * backwards, that number is 64, and a single shift by 64 is undefined.
	 */
	const u64 skip = (u64)FULL_TIME >> (63 - __builtin_clzll(time | 1)) >> 1;
	const bool interrupted = cpu->section_irqs[depth] != cpu->irqs_seen;
	const bool stolen = !interrupted && *cpu->witness != cpu->witness_armed;

	cpu->stats.sections_timed++;
	cpu->stats.sections_interrupted += interrupted;
	cpu->stats.sections_stolen += stolen;
	if (unlikely(time > cpu->section_limit)) {
		cpu->stats.sections_long++;
		cpu->stats.sections_long_witnessed += interrupted || stolen;
		keep_least(cpu, time);
	}
	histogram_add(cpu->section_into, time, cpu->section_weight);
	cpu->section_skip = skip < cpu->section_max_skip ? skip : cpu->section_max_skip;
	cpu->section_weight = cpu->section_skip + 1;
	barrier();
	cpu->section_start[depth] = 0;
	cpu->section_depth = depth;
}

static __always_inline void this_cpu_depth_add(u8 n)
{
	this_cpu_op("addb", "iq", n, section_depth);
}

void kernel_fpu_begin(void)
{
	struct cpu *cpu = this_cpu();

	if (unlikely(!kiln_section_skip())) {
		const u8 irqs_seen = cpu->irqs_seen;
		const u64 now = rdtsc();

		cpu->section_skip = 0;
		fpu_policy->begin();
		clock_start(cpu, now, irqs_seen);
	} else {
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

bool kiln_fpu_usable(void) __attribute__((alias("irq_fpu_usable")));

/* Policies of hosted trees, which are numbered after Kiln's own. */
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
 * The next three functions time sections that a hosted tree opens itself. Because the tree's calls
 * may be unbalanced, sections nested too deeply are counted but not timed, and an end without a
 * beginning is ignored.
 */
void kiln_section_time(struct kiln_section *section)
{
	section->irqs_seen = this_cpu_read(irqs_seen);
	section->now = rdtsc();
	this_cpu()->section_skip = 0;
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
