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

/*
 * Fill the registers from @want, wait @spins iterations, write their contents to
 * @found. One for each vector width, to be called inside a section.
 */
typedef void pattern_keep_t(const struct pattern *want, struct pattern *found,
			    u64 spins);
pattern_keep_t pattern_keep_aesni, pattern_keep_avx2, pattern_keep_vaes_avx512;

/* The two halves of that, for what happens between them to the registers. */
void pattern_fill_aesni(const struct pattern *want);
void pattern_fill_avx2(const struct pattern *want);
void pattern_fill_vaes_avx512(const struct pattern *want);
void pattern_read_aesni(struct pattern *found);
void pattern_read_avx2(struct pattern *found);
void pattern_read_vaes_avx512(struct pattern *found);

/* Overwrite every vector and mask register, MXCSR and the x87 control word. */
void clobber_aesni(void);
void clobber_avx2(void);
void clobber_vaes_avx512(void);
/* load.c: the one for this CPU */
void clobber_registers(void);

/* call.c: @fn with up to nine arguments */
u64 call_nine(const void *fn, const u64 *arg);

#endif
