/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The contents of all registers that a section may use, as a structure in memory. A detector loads
 * one such structure into the registers and later stores the registers to another. Fields for
 * registers that the CPU does not have are neither read nor written.
 */
#ifndef KILN_PATTERNS_H
#define KILN_PATTERNS_H

#include <kiln/types.h>

struct pattern {
	u8 zmm[32][64];
	u64 k[8];
	u32 mxcsr;
	u16 fcw;
	u8 pad[58];
} __aligned(64);

/* The patterns_*.c files support registers up to this width. */
#define TIER(name, bits, features) _Static_assert(bits <= 512, "patterns are narrower than " #name);
#include "../tiers.def"

/*
 * Fills the registers from @want, spins for @spins iterations, and writes the registers' contents
 * to @found. There is one function per vector width; call it inside a section.
 */
typedef void pattern_keep_t(const struct pattern *want, struct pattern *found,
			    u64 spins);
pattern_keep_t pattern_keep_xmm, pattern_keep_ymm, pattern_keep_zmm;

/*
 * The two halves of pattern_keep_t, for tests that use the registers between filling and reading.
 */
typedef void pattern_fill_t(const struct pattern *want);
pattern_fill_t pattern_fill_xmm, pattern_fill_ymm, pattern_fill_zmm;
typedef void pattern_read_t(struct pattern *found);
pattern_read_t pattern_read_xmm, pattern_read_ymm, pattern_read_zmm;

/* Overwrites every vector and mask register, MXCSR and the x87 control word. */
typedef void clobber_t(void);
clobber_t clobber_xmm, clobber_ymm, clobber_zmm;
/* load.c: calls the clobber_t function for the registers that this CPU has. */
void clobber_registers(void);

/* call.c: calls @fn with up to nine arguments. */
u64 call_nine(const void *fn, const u64 *arg);

#endif
