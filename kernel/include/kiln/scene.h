/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A scene: what a task and the hardirqs and softirqs over it do, one letter each, and a
 * trace of it. The same interpreter plays on the emulated CPU (load/scene_cpu.c) and in a
 * real kernel (linux/fidelity/), so that both are asked the same.
 *
 *	?	is the FPU usable
 *	s	is SIMD usable, as the crypto API asks it
 *	[ ]	open, close an FPU section
 *	( )	disable, enable softirqs
 *	!	an interrupt comes, here and now
 *	^	raise a softirq
 *	~	make way for others until no softirq is pending
 *	.	nothing: a mark
 *
 * The trace has a word for each: the level, the letter, for a question y or n, and the
 * preempt count after it in hexadecimal, such as "T[1 H^10000 S?n101 T]0".
 */
#ifndef KILN_SCENE_H
#define KILN_SCENE_H

#include <kiln/types.h>

enum kiln_level {
	KILN_LEVEL_TASK,
	KILN_LEVEL_HARDIRQ,
	KILN_LEVEL_SOFTIRQ,
	KILN_LEVEL_OVER_SOFTIRQ,	/* a hardirq */
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
	void (*interrupt)(void);	/* over on return */
	void (*raise)(void);
	void (*make_way)(void);
};

struct kiln_scene {
	const struct kiln_scene_ops *ops;
	/* A level that is reached again only leaves a mark: nothing goes on for ever. */
	const char *program[KILN_LEVELS];
	u32 played[KILN_LEVELS];
	u32 len, size;		/* of the trace */
	char *trace;
};

/*
 * Plays one level's program. Interrupts come into it, so a word may be torn by one that the
 * scene does not know of; the trace ends with a NUL all the same if it has KILN_SCENE_SLACK
 * bytes behind @size.
 */
void kiln_scene_play(struct kiln_scene *scene, enum kiln_level level);

enum { KILN_SCENE_SLACK = 64 };

#endif
