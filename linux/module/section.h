/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * FPU sections: drivers call Linux's kernel_fpu_begin() only through these functions. In user mode
 * Linux that call does nothing, since the host saves the registers of a process.
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
 * Opens a section where Linux allows one, and also in a softirq that interrupts another section;
 * that section's registers are then saved and later restored. Returns false if no section was
 * opened; kiln_section_end() must not be called then.
 */
bool kiln_section_begin(void);
void kiln_section_end(void);

/*
 * Allocates the memory for registers of interrupted sections. If that fails, sections open only
 * where Linux allows them.
 */
void kiln_section_init(void);
void kiln_section_exit(void);

/*
 * Selects the implementation that may run here. One that uses vector registers is returned with an
 * open section, which kiln_simd_end() closes. Where no section is possible, the result is the
 * algorithm's scalar code, which uses the same context and state.
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

/* Splits work into steps: each section processes at most @section_bytes of the algorithm. */
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

/* Returns the implementation for the next @n bytes, which must not exceed a section's limit. */
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
