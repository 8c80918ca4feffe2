/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * FPU sections: where vector registers may be used.
 *
 * section.c APIs:
 *	kernel_fpu_begin, kernel_fpu_end, irq_fpu_usable, crypto_simd_usable
 *	fpu_policy_set
 * user.c APIs:
 *	fpu_user_save, fpu_user_restore
 * xstate.c APIs:
 *	fpstate_save, fpstate_restore, fpstate_init, fpstate_reset_mxcsr
 * legacy.c, bh_off.c, nested.c, nested_v1.c, preemptible.c, none.c: one policy each
 */
#ifndef KILN_FPU_H
#define KILN_FPU_H

#include <kiln/cpu.h>

struct fpu_policy {
	const char *name;
	void (*begin)(void);
	void (*end)(void);
	bool (*usable)(void);
	/* A task is switched out, or in; NULL if sections cannot be preempted. */
	void (*switch_out)(struct task *task);
	void (*switch_in)(struct task *task);
	/* In place of user.c, where a hosted tree keeps the user's state. */
	bool (*user_restore)(void);
	void (*switch_to)(void *prev, void *next);
};

extern const struct fpu_policy fpu_legacy, fpu_bh_off, fpu_nested, fpu_nested_v1,
	fpu_preemptible, fpu_none;
extern const struct fpu_policy *fpu_policy;

/* Open a section. Warned of, and counted, where the policy does not allow one. */
void kernel_fpu_begin(void);
void kernel_fpu_end(void);

/* The same without the section clock, to measure what that costs. */
void kernel_fpu_begin_untimed(void);
void kernel_fpu_end_untimed(void);

/* Whether a section may be opened here and now. */
bool irq_fpu_usable(void);
bool crypto_simd_usable(void);

/* Whether the calling context is inside a section of its own. */
static __always_inline bool kernel_fpu_in_section(void)
{
	return this_cpu_read(section_depth) > this_cpu_read(section_base);
}

/*
 * The current task's user state is still in the registers: save it, to be loaded
 * again before it next runs in user mode. Nothing to do for a kthread.
 */
void fpu_user_save(void);
void fpu_user_restore(void);
void fpu_switch(struct task *prev, struct task *next);

void fpstate_save(struct fpstate *state);
void fpstate_restore(const struct fpstate *state);
void fpstate_init(struct fpstate *state);
/* fpu_default_mxcsr for objects that may not name such state. */
void fpstate_reset_mxcsr(void);

/* MXCSR as C code expects it: all exceptions masked, round to nearest. */
static __always_inline void fpu_default_mxcsr(void)
{
	static const u32 mxcsr = 0x1f80;

	__asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
}

/*
 * First statement of every SIMD entry point. With KILN_CHECKS it traps (ud2, as
 * the kernel's BUG does) outside a section; without, it costs nothing.
 */
#ifdef KILN_CHECKS
static __always_inline void assert_fpu_section(void)
{
	if (unlikely(!kernel_fpu_in_section()))
		__builtin_trap();
}
#else
static __always_inline void assert_fpu_section(void)
{
}
#endif

#endif
