/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* FPU sections: the only code that may use vector registers. */
#ifndef KILN_FPU_H
#define KILN_FPU_H

#include <kiln/cpu.h>
#include <kiln/fpu_assert.h>

struct fpu_policy {
	const char *name;
	void (*begin)(void);
	void (*end)(void);
	bool (*usable)(void);
	/*
	 * Called when a task is switched out and when it is switched in. NULL if sections cannot be
	 * preempted.
	 */
	void (*switch_out)(struct task *task);
	void (*switch_in)(struct task *task);
	/* Replace the functions in user.c if a hosted tree manages the user's FPU state. */
	bool (*user_restore)(void);
	void (*switch_to)(void *prev, void *next);
};

/* The policies. Each is defined in the file of the same name, such as bh_off.c. */
extern const struct fpu_policy fpu_legacy, fpu_bh_off, fpu_nested, fpu_nested_v1,
	fpu_preemptible, fpu_none;
extern const struct fpu_policy *fpu_policy;
/* nested.c: functions that fpu_nested and fpu_nested_v1 share. */
bool nested_usable(void);
void nested_end(void);

/*
 * section.c: opens a section. Increments the warning count if the policy does not allow a section
 * here.
 */
void kernel_fpu_begin(void);
void kernel_fpu_end(void);

/* Open and close a section without the section timer, to measure the timer's cost. */
void kernel_fpu_begin_untimed(void);
void kernel_fpu_end_untimed(void);

/* Returns whether the current context may open a section. */
bool irq_fpu_usable(void);

/* Returns whether the calling context itself has an open section. */
static __always_inline bool kernel_fpu_in_section(void)
{
	return this_cpu_read(section_depth) > this_cpu_read(section_base);
}

/*
 * user.c: saves the current task's user state if it is still in the registers, and marks it to be
 * restored before the task returns to user mode. Does nothing for a kthread.
 */
void fpu_user_save(void);
void fpu_user_restore(void);
void fpu_switch(struct task *prev, struct task *next);

/* xstate.c: save the registers to memory and restore them. */
void fpstate_save(struct fpstate *state);
void fpstate_restore(const struct fpstate *state);
void fpstate_init(struct fpstate *state);
/*
 * Does the same as fpu_default_mxcsr(), for objects that must contain neither vector instructions
 * nor LDMXCSR (law 2 in kiln-kernel/tests/laws).
 */
void fpstate_reset_mxcsr(void);

/* Sets MXCSR to the value that C code expects: all exceptions masked, round to nearest. */
static __always_inline void fpu_default_mxcsr(void)
{
	static const u32 mxcsr = 0x1f80;

	__asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
}

#endif
