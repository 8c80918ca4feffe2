// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Runs a scene on the emulated CPU. */
#include <kiln/abi/cpu.h>
#include <kiln/abi/load.h>
#include <kiln/cpu.h>
#include <kiln/crypto.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/scene.h>
#include <kiln/sched.h>

enum { SOFTIRQ_SCENE = 4, PATIENCE = 1000 };

static u32 count(void)
{
	return preempt_count();
}

static void raise(void)
{
	raise_softirq(SOFTIRQ_SCENE);
}

static void make_way(void)
{
	int turns;

	for (turns = 0; turns < PATIENCE && this_cpu_read(softirq_pending); turns++)
		yield();
}

static const struct kiln_scene_ops scene_ops = {
	.preempt_count = count,
	.fpu_usable = irq_fpu_usable,
	.simd_usable = crypto_simd_usable,
	.fpu_begin = kernel_fpu_begin,
	.fpu_end = kernel_fpu_end,
	.bh_disable = local_bh_disable,
	.bh_enable = local_bh_enable,
	.interrupt = kiln_irq_self,
	.raise = raise,
	.make_way = make_way,
};

static void scene_softirq(struct cpu *cpu)
{
	if (cpu->irq_data)
		kiln_scene_play(cpu->irq_data, KILN_LEVEL_SOFTIRQ);
}

static void scene_hardirq(struct cpu *cpu)
{
	kiln_scene_play(cpu->irq_data, in_serving_softirq() ? KILN_LEVEL_OVER_SOFTIRQ :
							       KILN_LEVEL_HARDIRQ);
}

u64 kiln_scene(void *arg)
{
	struct kiln_scene *s = arg;
	struct cpu *cpu = this_cpu();

	s->ops = &scene_ops;
	irq_attach(s, SOFTIRQ_SCENE, scene_softirq, scene_hardirq);
	kiln_scene_play(s, KILN_LEVEL_TASK);
	/* Run pending softirqs now, because they refer to the scene, which is on this stack. */
	make_way();
	cpu->irq_handler = NULL;
	cpu->irq_data = NULL;
	return 0;
}
