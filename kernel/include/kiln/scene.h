/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A scene: a program of one-letter actions for a task and for the hardirqs and softirqs that
 * interrupt it, and the trace of its execution. The same interpreter runs on the emulated CPU
 * (load/scene_cpu.c) and in a real kernel (linux/fidelity/), so that their traces can be compared.
 *
 *	?	query whether the FPU is usable
 *	s	query whether SIMD is usable, as the crypto API does
 *	[ ]	open, close an FPU section
 *	( )	disable, enable softirqs
 *	!	be interrupted by a hardirq at this point
 *	^	raise a softirq
 *	~	yield to other tasks until no softirq is pending
 *	.	write a mark to the trace and do nothing else
 *
 * The trace has one word per action: the level, the letter, y or n for a query, and the preempt
 * count after the action in hexadecimal. Example: "T[1 H^10000 S?n101 T]0".
 */
#ifndef KILN_SCENE_H
#define KILN_SCENE_H

#include <kiln/types.h>

enum kiln_level {
	KILN_LEVEL_TASK,
	KILN_LEVEL_HARDIRQ,
	KILN_LEVEL_SOFTIRQ,
	KILN_LEVEL_OVER_SOFTIRQ,	/* a hardirq that interrupts a softirq */
	KILN_LEVELS
};

struct kiln_scene_ops {
	u32 (*preempt_count)(void);
	bool (*fpu_usable)(void);
	bool (*simd_usable)(void);
	void (*fpu_begin)(void);
	void (*fpu_end)(void);
	void (*bh_disable)(void);
	void (*bh_enable)(void);
	void (*interrupt)(void);	/* returns after the interrupt has been handled */
	void (*raise)(void);
	void (*make_way)(void);
};

struct kiln_scene {
	const struct kiln_scene_ops *ops;
	/*
	 * One program per level. If a level is entered while its program is already running, only a
	 * mark is written to the trace, so every scene ends.
	 */
	const char *program[KILN_LEVELS];
	u32 played[KILN_LEVELS];
	u32 len, size;		/* bytes written to @trace, and the size of its buffer */
	char *trace;
};

/*
 * Runs the program of one level. An interrupt may occur while a word is being written, and its own
 * words may then split that word. The trace nevertheless ends with a NUL if its buffer has
 * KILN_SCENE_SLACK bytes beyond @size.
 */
void kiln_scene_play(struct kiln_scene *scene, enum kiln_level level);

enum { KILN_SCENE_SLACK = 64 };

#endif
