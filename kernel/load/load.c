// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A workload: a task encrypts, softirqs that interrupt the task also encrypt, and the results of
 * both are checked.
 */
#include <kiln/abi/cipher.h>
#include <kiln/abi/load.h>
#include <kiln/cpu.h>
#include <kiln/cpufeature.h>
#include <kiln/crypto.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>
#include <kiln/string.h>

#include "common.h"
#include "op.h"
#include "patterns.h"

enum { SOFTIRQ_LOAD = 3 };

size_t kiln_pattern_size(void)
{
	return sizeof(struct pattern);
}

/*
 * Selects the function by the registers that the CPU has, not by the mask of tiers, because code
 * that interrupts a section may use all registers.
 */
void clobber_registers(void)
{
	switch (cpu_register_bits()) {
	case 512:
		return clobber_zmm();
	case 256:
		return clobber_ymm();
	default:
		return clobber_xmm();
	}
}

static void keep_pattern(const struct pattern *want, struct pattern *found, u64 spins)
{
	switch (cpu_register_bits()) {
	case 512:
		return pattern_keep_zmm(want, found, spins);
	case 256:
		return pattern_keep_ymm(want, found, spins);
	default:
		return pattern_keep_xmm(want, found, spins);
	}
}

/*
 * If @step is set, each instruction from here to step_stop() causes a trap to the host. Until then
 * all sections are timed: if the timer skipped sections, the lengths of earlier sections would
 * determine which instructions run.
 */
static __always_inline void step_start(bool step)
{
	if (!step)
		return;
	this_cpu()->section_max_skip = 0;
	this_cpu()->section_skip = 0;
	set_trap_flag(true);
}

static __always_inline void step_stop(bool step)
{
	if (!step)
		return;
	set_trap_flag(false);
	this_cpu()->section_max_skip = SECTION_MAX_SKIP;
}

static void crypt(const struct kiln_load_side *side, const struct kiln_impl *impl, u32 i)
{
	const size_t offset = (size_t)i * side->stride;

	(side->decrypt ? impl->cipher.decrypt : impl->cipher.encrypt)(
		side->ctx, side->dst + offset, side->src + offset, side->len,
		side->iv + i * impl->ivsize);
}

static u32 next_message(struct kiln_load_side *side)
{
	return take_turn(&side->next, side->count);
}

void check_answer(struct kiln_load_side *side, u32 message, u32 at)
{
	u8 *dst = side->dst + (size_t)at * side->stride;
	const u8 *want = side->want + (size_t)message * side->stride;

	side->ops++;
	if (memcmp(dst, want, side->len))
		side->corrupted++;
	/* Invalidate the result, so that a stale one cannot pass the next check. */
	dst[0] = ~want[0];
}

/* Overwrites the registers if this context may use them. Returns whether it did. */
static bool clobber_in_section(void)
{
	if (!irq_fpu_usable())
		return false;
	kernel_fpu_begin();
	clobber_registers();
	kernel_fpu_end();
	return true;
}

static void softirq_once(struct kiln_load *load)
{
	struct kiln_load_side *side = &load->softirq;
	const u32 i = next_message(side);

	if (side->op) {
		op_put(side, i);
		clobber_in_section();
		return;
	}
	if (crypto_simd_usable()) {
		kernel_fpu_begin();
		crypt(side, side->impl, i);
		clobber_registers();
		kernel_fpu_end();
	} else {
		crypt(side, load->fallback, i);
		load->scalar_fallbacks++;
	}
	check_answer(side, i, i);
}

static void load_softirq(struct cpu *cpu)
{
	struct kiln_load *load = cpu->irq_data;

	step_start(load->step_softirq);
	softirq_once(load);
	step_stop(load->step_softirq);
}

static void load_hardirq(struct cpu *cpu)
{
	struct kiln_load *load = cpu->irq_data;

	if (load->empty)
		return;
	if (load->hardirq_hook)
		load->hardirq_hook();
	raise_softirq(SOFTIRQ_LOAD);
	if (load->hardirq_fpu)
		load->hardirq_sections += clobber_in_section();
}

/* The function of a second kernel thread, which encrypts like the task until the load ends. */
static void second_task(void *arg)
{
	struct kiln_load *load = arg;

	while (!*(volatile bool *)&load->stop_second) {
		const u32 i = next_message(&load->second);

		kernel_fpu_begin();
		crypt(&load->second, load->second.impl, i);
		kernel_fpu_end();
		check_answer(&load->second, i, i);
		cond_resched();
	}
	load->second_stopped = true;
}

u64 kiln_load_ready(void *arg)
{
	struct kiln_load *load = arg;

	if (load->task.op)
		op_init(&load->task);
	if (load->softirq.op)
		op_init(&load->softirq);
	return 0;
}

u64 kiln_load_attach(void *arg)
{
	struct kiln_load *load = arg;

	kiln_load_ready(load);
	/*
	 * Let kernel threads that were started or woken earlier go to sleep. Otherwise a tick may
	 * request a reschedule on their behalf, and the first run would differ from later ones.
	 */
	yield();
	irq_attach(load, SOFTIRQ_LOAD, load_softirq, load_hardirq);
	if (load->second.impl)
		return !kthread_run(second_task, load, "second");
	return 0;
}

/*
 * Waits for pending softirqs and operations in flight. The caller must ensure that interrupts do
 * not start new ones.
 */
u64 kiln_load_drain(void *arg)
{
	struct kiln_load *load = arg;

	while (this_cpu_read(softirq_pending))
		do_softirq();
	op_wait(&load->task, 1);
	op_wait(&load->softirq, 1);
	return 0;
}

u64 kiln_load_detach(void *arg)
{
	struct kiln_load *load = arg;

	load->stop_second = true;
	while (load->second.impl && !load->second_stopped)
		yield();
	irq_detach();
	return kiln_load_drain(load);
}

static void task_crypt(struct kiln_load *load)
{
	const u32 i = next_message(&load->task);

	step_start(load->step);
	kernel_fpu_begin();
	crypt(&load->task, load->task.impl, i);
	kernel_fpu_end();
	step_stop(load->step);
	check_answer(&load->task, i, i);
}

static void task_put(struct kiln_load *load)
{
	const u32 i = next_message(&load->task);

	op_wait(&load->task, load->task.depth);
	step_start(load->step);
	op_put(&load->task, i);
	step_stop(load->step);
}

static void task_keep(struct kiln_load *load)
{
	struct pattern *found = (struct pattern *)load->found;

	step_start(load->step);
	kernel_fpu_begin();
	keep_pattern((const struct pattern *)load->pattern, found, load->spins);
	kernel_fpu_end();
	step_stop(load->step);
	load->task.ops++;
	if (memcmp(found, load->pattern, sizeof(*found)))
		load->task.corrupted++;
}

u64 kiln_load_run(void *arg)
{
	struct kiln_load *load = arg;
	u64 n;

	this_cpu()->stepped = load->step;
	for (n = 0; n < load->ops; n++) {
		if (load->task.op)
			task_put(load);
		else if (load->task.impl)
			task_crypt(load);
		else
			task_keep(load);
		cond_resched();
	}
	/* The task must not have operations in flight when it returns to user mode. */
	op_wait(&load->task, 1);
	this_cpu()->stepped = false;
	return load->task.corrupted;
}
