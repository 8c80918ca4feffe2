/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * FPU sections. Drivers call Linux's kernel_fpu_begin() only through these functions. In user mode
 * Linux, kernel_fpu_begin() does nothing, because the host saves each process's registers.
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
 * Opens a section where Linux allows one, and also in a softirq that interrupts another section. In
 * that case, the registers of the interrupted section are saved, and kiln_section_end() restores
 * them. Returns false if no section was opened; kiln_section_end() must not be called then.
 */
bool kiln_section_begin(void);
void kiln_section_end(void);

/*
 * Allocates the memory for the registers of interrupted sections. If this fails, or @may_nest is
 * false, then until the module is unloaded, sections are opened only where Linux allows them.
 */
void kiln_section_init(bool may_nest);
void kiln_section_exit(void);

/*
 * Selects the implementation that may run here. If it uses vector registers, a section has been
 * opened, and kiln_simd_end() closes it. If no section is possible, returns the algorithm's scalar
 * code, which uses the same context and state.
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

/* Work split into steps. Each section processes at most @section_bytes (a field of @alg). */
struct kiln_steps {
	const struct kiln_alg *alg;
	const struct kiln_impl *impl;
	u32 left;	/* number of bytes that the open section may still process */
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

/* Returns the implementation for the next @n bytes. @n must not exceed a section's limit. */
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
