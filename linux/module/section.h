/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * FPU sections: the only place that touches Linux's. In user mode Linux begin and end do
 * nothing, since the host saves the registers of a process.
 */
#ifndef KILN_SECTION_H
#define KILN_SECTION_H

#include <linux/types.h>

#include <asm/fpu/api.h>
#include <asm/simd.h>
#include <crypto/internal/simd.h>

#include "alg.h"

void kiln_fpu_begin(void);
void kiln_fpu_end(void);

/*
 * Which code may run here. If it needs vector registers a section is open until
 * kiln_simd_end() of the same code; where none may be opened it is the one of the
 * algorithm's in general registers, which takes over the same context and state.
 */
static __always_inline const struct kiln_impl *kiln_simd_begin(const struct kiln_alg *alg)
{
	if (!alg->scalar)
		return alg->impl;
	if (!crypto_simd_usable())
		return alg->scalar;
	kernel_fpu_begin();
	return alg->impl;
}

static __always_inline void kiln_simd_end(const struct kiln_impl *impl)
{
	if (impl->tier != KILN_TIER_GENERIC)
		kernel_fpu_end();
}

#endif
