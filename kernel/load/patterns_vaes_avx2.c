// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Patterns in sixteen 256-bit registers, MXCSR and the x87 control word.
 */
#include <kiln/fpu.h>

#include "patterns.h"

void pattern_keep_vaes_avx2(const struct pattern *want, struct pattern *found, u64 spins)
{
	assert_fpu_section();
	__asm__ volatile(
		"vmovdqu 0(%[w]), %%ymm0\n\t"
		"vmovdqu 64(%[w]), %%ymm1\n\t"
		"vmovdqu 128(%[w]), %%ymm2\n\t"
		"vmovdqu 192(%[w]), %%ymm3\n\t"
		"vmovdqu 256(%[w]), %%ymm4\n\t"
		"vmovdqu 320(%[w]), %%ymm5\n\t"
		"vmovdqu 384(%[w]), %%ymm6\n\t"
		"vmovdqu 448(%[w]), %%ymm7\n\t"
		"vmovdqu 512(%[w]), %%ymm8\n\t"
		"vmovdqu 576(%[w]), %%ymm9\n\t"
		"vmovdqu 640(%[w]), %%ymm10\n\t"
		"vmovdqu 704(%[w]), %%ymm11\n\t"
		"vmovdqu 768(%[w]), %%ymm12\n\t"
		"vmovdqu 832(%[w]), %%ymm13\n\t"
		"vmovdqu 896(%[w]), %%ymm14\n\t"
		"vmovdqu 960(%[w]), %%ymm15\n\t"
		"ldmxcsr 2112(%[w])\n\t"
		"fldcw 2116(%[w])\n\t"
		"1: dec %[n]\n\t"
		"jns 1b\n\t"
		"vmovdqu %%ymm0, 0(%[f])\n\t"
		"vmovdqu %%ymm1, 64(%[f])\n\t"
		"vmovdqu %%ymm2, 128(%[f])\n\t"
		"vmovdqu %%ymm3, 192(%[f])\n\t"
		"vmovdqu %%ymm4, 256(%[f])\n\t"
		"vmovdqu %%ymm5, 320(%[f])\n\t"
		"vmovdqu %%ymm6, 384(%[f])\n\t"
		"vmovdqu %%ymm7, 448(%[f])\n\t"
		"vmovdqu %%ymm8, 512(%[f])\n\t"
		"vmovdqu %%ymm9, 576(%[f])\n\t"
		"vmovdqu %%ymm10, 640(%[f])\n\t"
		"vmovdqu %%ymm11, 704(%[f])\n\t"
		"vmovdqu %%ymm12, 768(%[f])\n\t"
		"vmovdqu %%ymm13, 832(%[f])\n\t"
		"vmovdqu %%ymm14, 896(%[f])\n\t"
		"vmovdqu %%ymm15, 960(%[f])\n\t"
		"stmxcsr 2112(%[f])\n\t"
		"fnstcw 2116(%[f])\n\t"
		"vzeroupper\n\t"
		: [n] "+r"(spins)
		: [w] "r"(want), [f] "r"(found)
		: "memory", "cc",
		  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
		  "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
	fpu_default_mxcsr();
}

void clobber_vaes_avx2(void)
{
	/* Round towards zero, flush denormals; x87 in single precision. */
	static const u32 mxcsr = 0xff80;
	static const u16 fcw = 0x0c7f;

	assert_fpu_section();
	__asm__ volatile(
		"vpcmpeqd %%ymm0, %%ymm0, %%ymm0\n\t"
		"vpcmpeqd %%ymm1, %%ymm1, %%ymm1\n\t"
		"vpcmpeqd %%ymm2, %%ymm2, %%ymm2\n\t"
		"vpcmpeqd %%ymm3, %%ymm3, %%ymm3\n\t"
		"vpcmpeqd %%ymm4, %%ymm4, %%ymm4\n\t"
		"vpcmpeqd %%ymm5, %%ymm5, %%ymm5\n\t"
		"vpcmpeqd %%ymm6, %%ymm6, %%ymm6\n\t"
		"vpcmpeqd %%ymm7, %%ymm7, %%ymm7\n\t"
		"vpcmpeqd %%ymm8, %%ymm8, %%ymm8\n\t"
		"vpcmpeqd %%ymm9, %%ymm9, %%ymm9\n\t"
		"vpcmpeqd %%ymm10, %%ymm10, %%ymm10\n\t"
		"vpcmpeqd %%ymm11, %%ymm11, %%ymm11\n\t"
		"vpcmpeqd %%ymm12, %%ymm12, %%ymm12\n\t"
		"vpcmpeqd %%ymm13, %%ymm13, %%ymm13\n\t"
		"vpcmpeqd %%ymm14, %%ymm14, %%ymm14\n\t"
		"vpcmpeqd %%ymm15, %%ymm15, %%ymm15\n\t"
		"ldmxcsr %[mxcsr]\n\t"
		"fldcw %[fcw]\n\t"
		:
		: [mxcsr] "m"(mxcsr), [fcw] "m"(fcw)
		: "memory",
		  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
		  "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}
