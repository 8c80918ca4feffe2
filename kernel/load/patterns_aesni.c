// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Patterns in sixteen 128-bit registers, MXCSR and the x87 control word.
 */
#include <kiln/fpu.h>

#include "patterns.h"

void pattern_keep_aesni(const struct pattern *want, struct pattern *found, u64 spins)
{
	assert_fpu_section();
	__asm__ volatile(
		"movdqu 0(%[w]), %%xmm0\n\t"
		"movdqu 64(%[w]), %%xmm1\n\t"
		"movdqu 128(%[w]), %%xmm2\n\t"
		"movdqu 192(%[w]), %%xmm3\n\t"
		"movdqu 256(%[w]), %%xmm4\n\t"
		"movdqu 320(%[w]), %%xmm5\n\t"
		"movdqu 384(%[w]), %%xmm6\n\t"
		"movdqu 448(%[w]), %%xmm7\n\t"
		"movdqu 512(%[w]), %%xmm8\n\t"
		"movdqu 576(%[w]), %%xmm9\n\t"
		"movdqu 640(%[w]), %%xmm10\n\t"
		"movdqu 704(%[w]), %%xmm11\n\t"
		"movdqu 768(%[w]), %%xmm12\n\t"
		"movdqu 832(%[w]), %%xmm13\n\t"
		"movdqu 896(%[w]), %%xmm14\n\t"
		"movdqu 960(%[w]), %%xmm15\n\t"
		"ldmxcsr 2112(%[w])\n\t"
		"fldcw 2116(%[w])\n\t"
		"1: dec %[n]\n\t"
		"jns 1b\n\t"
		"movdqu %%xmm0, 0(%[f])\n\t"
		"movdqu %%xmm1, 64(%[f])\n\t"
		"movdqu %%xmm2, 128(%[f])\n\t"
		"movdqu %%xmm3, 192(%[f])\n\t"
		"movdqu %%xmm4, 256(%[f])\n\t"
		"movdqu %%xmm5, 320(%[f])\n\t"
		"movdqu %%xmm6, 384(%[f])\n\t"
		"movdqu %%xmm7, 448(%[f])\n\t"
		"movdqu %%xmm8, 512(%[f])\n\t"
		"movdqu %%xmm9, 576(%[f])\n\t"
		"movdqu %%xmm10, 640(%[f])\n\t"
		"movdqu %%xmm11, 704(%[f])\n\t"
		"movdqu %%xmm12, 768(%[f])\n\t"
		"movdqu %%xmm13, 832(%[f])\n\t"
		"movdqu %%xmm14, 896(%[f])\n\t"
		"movdqu %%xmm15, 960(%[f])\n\t"
		"stmxcsr 2112(%[f])\n\t"
		"fnstcw 2116(%[f])\n\t"
		: [n] "+r"(spins)
		: [w] "r"(want), [f] "r"(found)
		: "memory", "cc",
		  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
		  "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
	fpu_default_mxcsr();
}

void clobber_aesni(void)
{
	/* Round towards zero, flush denormals; x87 in single precision. */
	static const u32 mxcsr = 0xff80;
	static const u16 fcw = 0x0c7f;

	assert_fpu_section();
	__asm__ volatile(
		"pcmpeqd %%xmm0, %%xmm0\n\t"
		"pcmpeqd %%xmm1, %%xmm1\n\t"
		"pcmpeqd %%xmm2, %%xmm2\n\t"
		"pcmpeqd %%xmm3, %%xmm3\n\t"
		"pcmpeqd %%xmm4, %%xmm4\n\t"
		"pcmpeqd %%xmm5, %%xmm5\n\t"
		"pcmpeqd %%xmm6, %%xmm6\n\t"
		"pcmpeqd %%xmm7, %%xmm7\n\t"
		"pcmpeqd %%xmm8, %%xmm8\n\t"
		"pcmpeqd %%xmm9, %%xmm9\n\t"
		"pcmpeqd %%xmm10, %%xmm10\n\t"
		"pcmpeqd %%xmm11, %%xmm11\n\t"
		"pcmpeqd %%xmm12, %%xmm12\n\t"
		"pcmpeqd %%xmm13, %%xmm13\n\t"
		"pcmpeqd %%xmm14, %%xmm14\n\t"
		"pcmpeqd %%xmm15, %%xmm15\n\t"
		"ldmxcsr %[mxcsr]\n\t"
		"fldcw %[fcw]\n\t"
		:
		: [mxcsr] "m"(mxcsr), [fcw] "m"(fcw)
		: "memory",
		  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
		  "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}
