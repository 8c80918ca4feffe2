// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Measures how long the FPU sections are while a task processes long messages, and how long they
 * delay other work. Each interrupt raises a softirq and wakes a kthread. The time from the
 * interrupt until each of them runs is recorded.
 *
 * The active chunking strategy is compared with one section per message and with sections of pure
 * arithmetic. The three workloads alternate, so that noise from the host affects all of them
 * equally.
 */
#include <kiln/budget.h>
#include <kiln/cpu.h>
#include <kiln/crypto.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>

enum { SOFTIRQ_BUDGET = 5 };

static struct kiln_budget_part *part_of(struct kiln_budget_run *run, u32 part)
{
	return part < KILN_NR_PARTS ? &run->part[part] : NULL;
}

/*
 * Records in run->raised which workload was running when the interrupt arrived. The task may have
 * moved on to another workload by the time the softirq runs and measures its delay.
 */
static void budget_hardirq(struct cpu *cpu)
{
	struct kiln_budget_run *run = cpu->irq_data;

	run->raised = run->now;
	raise_softirq(SOFTIRQ_BUDGET);
	if (run->sleeper->state == TASK_SLEEPING) {
		run->woken = cpu->irq_time;
		wake_up(run->sleeper);
	}
}

static void budget_softirq(struct cpu *cpu)
{
	struct kiln_budget_run *run = cpu->irq_data;
	struct kiln_budget_part *p = part_of(run, run->raised);

	if (p)
		histogram_add(&p->softirq, rdtsc() - cpu->irq_time, 1);
}

static void sleeper(void *arg)
{
	struct kiln_budget_run *run = arg;

	for (;;) {
		struct kiln_budget_part *p;

		local_irq_disable();
		if (*(volatile bool *)&run->stop)
			break;
		current->state = TASK_SLEEPING;
		schedule();
		p = part_of(run, run->raised);
		if (p && run->woken)
			histogram_add(&p->wake, rdtsc() - run->woken, 1);
		run->woken = 0;
		local_irq_enable();
	}
	run->stopped = true;
	local_irq_enable();
}

static void flush(const u8 *at, size_t len)
{
	size_t i;

	for (i = 0; i < len; i += 64)
		__asm__ volatile("clflush %0" : : "m"(at[i]));
	__asm__ volatile("mfence" : : : "memory");
}

static void chain(u64 n)
{
	u64 x = 3;

	for (; n; n--)
		__asm__ volatile("imulq %0, %0" : "+r"(x));
}

static void begin_part(struct kiln_budget_run *run, struct cpu *cpu, u32 part,
		       struct cpu_stats *before)
{
	*before = cpu->stats;
	cpu->section_into = &run->part[part].section;
	cpu->section_skip = 0;
	cpu->section_weight = 1;
	run->now = part;
	barrier();
}

static void end_part(struct kiln_budget_run *run, struct cpu *cpu, u32 part,
		     const struct cpu_stats *before)
{
	struct kiln_budget_part *p = &run->part[part];

	barrier();
	run->now = KILN_NR_PARTS;
	cpu->section_into = &cpu->section_time;
	p->sections += cpu->stats.sections - before->sections;
	p->interrupted += cpu->stats.sections_interrupted - before->sections_interrupted;
	p->stolen += cpu->stats.sections_stolen - before->sections_stolen;
	p->stalls += cpu->stats.stalls - before->stalls;
	p->long_sections += cpu->stats.sections_long - before->sections_long;
	p->long_witnessed += cpu->stats.sections_long_witnessed -
			     before->sections_long_witnessed;
}

/*
 * Performs one operation, either split into sections by the active chunking strategy or in a single
 * section.
 */
static u64 operation(struct kiln_budget_run *run, struct cpu *cpu, u32 part)
{
	const struct crypto_alg *alg = ((struct crypto_tfm *)run->requests->tfm)->alg;
	const bool hash = (alg->flags & CRYPTO_ALG_TYPE_MASK) == CRYPTO_ALG_TYPE_SHASH;
	struct fpu_budget *budget = alg->budget;
	const struct kiln_messages *m = &run->requests->m;
	const u32 d = m->decrypt;
	struct kiln_budget_part *p = &run->part[part];
	const u32 most = budget[d].most;
	struct cpu_stats before;
	u64 took;

	if (run->cold) {
		flush(m->src, kiln_message_size(m));
		flush(m->dst, hash ? m->tag : kiln_result_size(m));
	}
	if (part == KILN_PART_UNBOUNDED)
		budget[d].most = ~0u;
	begin_part(run, cpu, part, &before);
	took = rdtsc();
	kiln_requests_run(run->requests);
	took = rdtsc() - took;
	end_part(run, cpu, part, &before);
	if (part == KILN_PART_UNBOUNDED)
		budget[d].most = most;
	if (run->requests->err && !run->err)
		run->err = run->requests->err;
	if (p->ops < run->max_ops)
		p->op_ticks[p->ops] = took;
	p->ops++;
	return took;
}

static void null_sections(struct kiln_budget_run *run, struct cpu *cpu, u64 ticks)
{
	struct cpu_stats before;
	const u64 start = rdtsc();

	begin_part(run, cpu, KILN_PART_NULL, &before);
	do {
		kernel_fpu_begin();
		chain(run->null_chain);
		kernel_fpu_end();
	} while (rdtsc() - start < ticks);
	end_part(run, cpu, KILN_PART_NULL, &before);
	run->part[KILN_PART_NULL].ops++;
}

u64 kiln_budget_run(void *arg)
{
	struct kiln_budget_run *run = arg;
	struct cpu *cpu = this_cpu();
	const u64 start = rdtsc();
	u64 took;

	run->now = KILN_NR_PARTS;
	run->stop = run->stopped = false;
	run->sleeper = kthread_run(sleeper, run, "sleeper");
	if (!run->sleeper)
		return 1;
	run->sleeper->urgent = true;
	/* Let the kthread go to sleep before the first interrupt wakes it. */
	yield();
	cpu->section_limit = run->long_ticks;
	cpu->watchdog = run->long_ticks;
	irq_attach(run, SOFTIRQ_BUDGET, budget_softirq, budget_hardirq);
	do {
		/*
		 * Alternate the order, because the second operation finds more of its data in the
		 * caches than the first.
		 */
		if (!run->quiet && run->part[0].ops % 2)
			operation(run, cpu, KILN_PART_UNBOUNDED);
		took = operation(run, cpu, KILN_PART_JUDGED);
		if (run->quiet)
			continue;
		if (run->part[0].ops > run->part[1].ops)
			operation(run, cpu, KILN_PART_UNBOUNDED);
		null_sections(run, cpu, took);
	} while ((rdtsc() - start < run->ticks || run->part[0].ops < run->min_ops) &&
		 !run->err);
	irq_detach();
	run->stop = true;
	while (!*(volatile bool *)&run->stopped) {
		wake_up(run->sleeper);
		yield();
	}
	cpu->section_limit = ~0ull;
	cpu->watchdog = 0;
	cpu->irq_data = NULL;
	return 0;
}
