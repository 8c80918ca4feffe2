/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Patterns in all registers: the template that every vector width includes once. The including file
 * defines:
 *
 *	PATTERNS(name)	name of an entry point of this width
 *	VECTOR, MOVE	a vector register's name without its number, and the instruction for an
 *			unaligned move of it
 *	ONES(n)		instruction that sets vector n to all ones
 *	ALL(F)		F(n) for each vector
 *	MASKS(F)	F(n) for each mask register, or nothing
 *	CLOBBERS	list of all these registers, for the compiler
 *	END		instructions required before a function returns, such as VZEROUPPER
 */

#include <kiln/fpu.h>

#include "patterns.h"

#define R_0_15(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) \
	F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)
#define R_16_31(F) F(16) F(17) F(18) F(19) F(20) F(21) F(22) F(23) \
	F(24) F(25) F(26) F(27) F(28) F(29) F(30) F(31)
#define R_0_7(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define XMM_0_15 "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
	"xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
#define XMM_16_31 "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", \
	"xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31"

/* struct pattern has 64 bytes per vector, 8 per mask, then MXCSR and the x87 control word. */
#define LOAD(n) MOVE " 64*" #n "(%[want]), %%" VECTOR #n "\n\t"
#define STORE(n) MOVE " %%" VECTOR #n ", 64*" #n "(%[found])\n\t"
#define LOAD_MASK(n) "kmovq 2048+8*" #n "(%[want]), %%k" #n "\n\t"
#define STORE_MASK(n) "kmovq %%k" #n ", 2048+8*" #n "(%[found])\n\t"
#define ONES_MASK(n) "kxnorq %%k" #n ", %%k" #n ", %%k" #n "\n\t"

#define FILL ALL(LOAD) MASKS(LOAD_MASK) \
	"ldmxcsr 2112(%[want])\n\t" "fldcw 2116(%[want])\n\t"
#define READ ALL(STORE) MASKS(STORE_MASK) \
	"stmxcsr 2112(%[found])\n\t" "fnstcw 2116(%[found])\n\t" END

_Static_assert(__builtin_offsetof(struct pattern, k) == 2048, "");
_Static_assert(__builtin_offsetof(struct pattern, mxcsr) == 2112, "");
_Static_assert(__builtin_offsetof(struct pattern, fcw) == 2116, "");

void PATTERNS(pattern_keep)(const struct pattern *want, struct pattern *found,
			    u64 spins)
{
	assert_fpu_section();
	__asm__ volatile(FILL
			 "1: dec %[spins]\n\t"
			 "jns 1b\n\t"
			 READ
			 : [spins] "+r"(spins)
			 : [want] "r"(want), [found] "r"(found)
			 : "memory", "cc", CLOBBERS);
	fpu_default_mxcsr();
}

void PATTERNS(pattern_fill)(const struct pattern *want)
{
	assert_fpu_section();
	__asm__ volatile(FILL
			 :
			 : [want] "r"(want)
			 : "memory", CLOBBERS);
}

void PATTERNS(pattern_read)(struct pattern *found)
{
	assert_fpu_section();
	__asm__ volatile(READ
			 :
			 : [found] "r"(found)
			 : "memory", CLOBBERS);
	fpu_default_mxcsr();
}

void PATTERNS(clobber)(void)
{
	/* MXCSR: round towards zero, flush denormals. x87 control word: single precision. */
	static const u32 mxcsr = 0xff80;
	static const u16 fcw = 0x0c7f;

	assert_fpu_section();
	__asm__ volatile(ALL(ONES)
			 MASKS(ONES_MASK)
			 "ldmxcsr %[mxcsr]\n\t"
			 "fldcw %[fcw]\n\t"
			 :
			 : [mxcsr] "m"(mxcsr), [fcw] "m"(fcw)
			 : "memory", CLOBBERS);
}
