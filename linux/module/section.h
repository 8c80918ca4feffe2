/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * FPU sections: the only place that touches Linux's. In user mode Linux begin and end do
 * nothing, since the host saves the registers of a process.
 *
 * section.c APIs:
 *	kiln_section_usable, kiln_section_begin, kiln_section_end
 *	kiln_section_init, kiln_section_exit
 */
#ifndef KILN_SECTION_H
#define KILN_SECTION_H

#include <linux/types.h>

#include "alg.h"

/*
 * Whether a section may be opened here: where Linux says so, and in a softirq over somebody
 * else's section, whose registers are then saved and put back.
 */
bool kiln_section_usable(void);
void kiln_section_begin(void);
void kiln_section_end(void);

/* Memory for those registers. Without it Linux alone says where a section may be opened. */
void kiln_section_init(void);
void kiln_section_exit(void);

/*
 * Which code may run here. If it needs vector registers a section is open until
 * kiln_simd_end() of the same code; where none may be opened it is the one of the
 * algorithm's in general registers, which takes over the same context and state.
 */
static __always_inline const struct kiln_impl *kiln_simd_begin(const struct kiln_alg *alg)
{
	if (!alg->scalar)
		return alg->impl;
	if (!kiln_section_usable())
		return alg->scalar;
	kiln_section_begin();
	return alg->impl;
}

static __always_inline void kiln_simd_end(const struct kiln_impl *impl)
{
	if (impl->tier != KILN_TIER_GENERIC)
		kiln_section_end();
}

#endif
