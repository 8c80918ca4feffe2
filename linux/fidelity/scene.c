// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Plays scenes in a real kernel. The question is `scene TIMES TASK HARDIRQ SOFTIRQ OVER_SOFTIRQ`,
 * where a single dash is an empty program. The scene is played TIMES times, because the tick may
 * interrupt it. The answer has one line per distinct trace. The line begins with the number of
 * times that the trace occurred.
 */
#include <linux/bottom_half.h>
#include <linux/delay.h>
#include <linux/interrupt.h>
#include <linux/preempt.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <asm/fpu/api.h>
#include <asm/simd.h>
#include <crypto/internal/simd.h>

#include <kiln/scene.h>

#include "fidelity.h"

enum { TRACE = 1024, TRACES = 16, TIMES = 1000, PATIENCE_MS = 1000 };

static struct kiln_scene *playing;

static void scene_hardirq(void *data)
{
	kiln_scene_play(data, in_serving_softirq() ? KILN_LEVEL_OVER_SOFTIRQ :
						     KILN_LEVEL_HARDIRQ);
}

static void scene_softirq(struct tasklet_struct *tasklet)
{
	if (playing)
		kiln_scene_play(playing, KILN_LEVEL_SOFTIRQ);
}

static DECLARE_TASKLET(scene_tasklet, scene_softirq);

static u32 count(void)
{
	return usual_preempt_count();
}

static bool simd_usable(void)
{
	return crypto_simd_usable();
}

static void begin(void)
{
	kernel_fpu_begin();
}

static void end(void)
{
	kernel_fpu_end();
}

static void bh_disable(void)
{
	local_bh_disable();
}

static void bh_enable(void)
{
	local_bh_enable();
}

static void interrupt(void)
{
	where_interrupt(scene_hardirq, playing);
}

static void raise(void)
{
	tasklet_schedule(&scene_tasklet);
}

static void make_way(void)
{
	int ms;

	for (ms = 0; ms < PATIENCE_MS && test_bit(TASKLET_STATE_SCHED, &scene_tasklet.state); ms++)
		msleep(1);
}

static const struct kiln_scene_ops ops = {
	.preempt_count = count,
	.fpu_usable = irq_fpu_usable,
	.simd_usable = simd_usable,
	.fpu_begin = begin,
	.fpu_end = end,
	.bh_disable = bh_disable,
	.bh_enable = bh_enable,
	.interrupt = interrupt,
	.raise = raise,
	.make_way = make_way,
};

static void play(char **programs, char *trace)
{
	struct kiln_scene scene = { .ops = &ops, .size = TRACE - KILN_SCENE_SLACK, .trace = trace };
	int i;

	for (i = 0; i < KILN_LEVELS; i++)
		scene.program[i] = programs[i];
	trace[0] = '\0';
	playing = &scene;
	kiln_scene_play(&scene, KILN_LEVEL_TASK);
	make_way();
	/* tasklet_kill() also waits for a running tasklet, which may still use the scene. */
	tasklet_kill(&scene_tasklet);
	playing = NULL;
}

int scene_ask(char *question, struct answer *to)
{
	char *programs[KILN_LEVELS], *times_word = strsep(&question, " \n"), *traces;
	unsigned int times, counts[TRACES] = {}, i, k;

	if (kstrtouint(times_word, 10, &times) || times > TIMES)
		return -EINVAL;
	for (i = 0; i < KILN_LEVELS; i++) {
		programs[i] = strsep(&question, " \n");
		if (!programs[i])
			return -EINVAL;
		if (!strcmp(programs[i], "-"))
			programs[i] = "";
	}
	/* The additional entry holds the newest trace. */
	traces = kcalloc(TRACES + 1, TRACE, GFP_KERNEL);
	if (!traces)
		return -ENOMEM;
	for (i = 0; i < times; i++) {
		char *new = traces + TRACES * TRACE;

		play(programs, new);
		for (k = 0; k < TRACES - 1; k++)
			if (!counts[k] || !strcmp(traces + k * TRACE, new))
				break;
		/* If all entries are in use, the trace is counted in the last one. */
		memcpy(traces + k * TRACE, new, TRACE);
		counts[k]++;
	}
	for (k = 0; k < TRACES; k++)
		if (counts[k])
			answer(to, "%u %s\n", counts[k], traces + k * TRACE);
	kfree(traces);
	return 0;
}
