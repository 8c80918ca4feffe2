/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * FPU sections: all of the drivers' calls of Linux's kernel_fpu_begin() are here. In user mode
 * Linux these do nothing, since the host saves the registers of a process.
 *
 * section.c APIs:
 *	kiln_section_begin, kiln_section_end
 *	kiln_section_init, kiln_section_exit
 */
#ifndef KILN_SECTION_H
#define KILN_SECTION_H

#include <linux/sched.h>
#include <linux/types.h>

#include "alg.h"

/*
 * Opens a section if one is possible here: where Linux allows it, and in a softirq that
 * interrupted another section, whose registers are saved until the end. Otherwise
 * returns false, and there is nothing to end.
 */
bool kiln_section_begin(void);
void kiln_section_end(void);

/* Allocates the memory for those registers. Without it only Linux's rules apply. */
void kiln_section_init(void);
void kiln_section_exit(void);

/*
 * Selects the code that may run here. If it uses vector registers a section is open until
 * kiln_simd_end() is called with it. Where no section is possible it is the algorithm's
 * scalar code, which works on the same context and state.
 */
static __always_inline const struct kiln_impl *kiln_simd_begin(const struct kiln_alg *alg)
{
	if (!alg->scalar)
		return alg->impl;
	return kiln_section_begin() ? alg->impl : alg->scalar;
}

static __always_inline void kiln_simd_end(const struct kiln_impl *impl)
{
	if (impl->tier != KILN_TIER_GENERIC)
		kiln_section_end();
}

/* Work in steps: each section processes at most @section_bytes of the algorithm. */
struct kiln_steps {
	const struct kiln_alg *alg;
	const struct kiln_impl *impl;
	u32 left;	/* bytes that the open section may still process */
	bool may_sleep;
};

static inline void kiln_steps_begin(struct kiln_steps *steps, const struct kiln_alg *alg,
				    u32 request_flags)
{
	steps->alg = alg;
	steps->may_sleep = request_flags & CRYPTO_TFM_REQ_MAY_SLEEP;
	steps->left = alg->section_bytes;
	steps->impl = kiln_simd_begin(alg);
}

static inline void kiln_steps_end(struct kiln_steps *steps)
{
	kiln_simd_end(steps->impl);
}

/* The code for the next @n bytes, at most those of a section. */
static inline const struct kiln_impl *kiln_step(struct kiln_steps *steps, u32 n)
{
	if (n > steps->left) {
		kiln_simd_end(steps->impl);
		if (steps->may_sleep)
			cond_resched();
		steps->impl = kiln_simd_begin(steps->alg);
		steps->left = steps->alg->section_bytes;
	}
	steps->left -= n;
	return steps->impl;
}

#endif
