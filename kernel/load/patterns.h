/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Everything a section has in registers, as memory: what a detector puts there and
 * what it finds. Fields that a CPU does not have are left alone.
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

/* There are patterns_*.c for these widths of registers. */
#define TIER(name, bits, features) _Static_assert(bits <= 512, "patterns are narrower than " #name);
#include "../tiers.def"

/*
 * Fill the registers from @want, wait @spins iterations, write their contents to
 * @found. One for each vector width, to be called inside a section.
 */
typedef void pattern_keep_t(const struct pattern *want, struct pattern *found,
			    u64 spins);
pattern_keep_t pattern_keep_xmm, pattern_keep_ymm, pattern_keep_zmm;

/* The two halves of that, for what happens between them to the registers. */
typedef void pattern_fill_t(const struct pattern *want);
pattern_fill_t pattern_fill_xmm, pattern_fill_ymm, pattern_fill_zmm;
typedef void pattern_read_t(struct pattern *found);
pattern_read_t pattern_read_xmm, pattern_read_ymm, pattern_read_zmm;

/* Overwrite every vector and mask register, MXCSR and the x87 control word. */
typedef void clobber_t(void);
clobber_t clobber_xmm, clobber_ymm, clobber_zmm;
/* load.c: the one for this CPU */
void clobber_registers(void);

/* call.c: @fn with up to nine arguments */
u64 call_nine(const void *fn, const u64 *arg);

#endif
