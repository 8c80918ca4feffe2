// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Patterns in 32 512-bit registers, eight masks, MXCSR and the x87 control word.
 */
#include <kiln/fpu.h>

#include "patterns.h"

void pattern_keep_vaes_avx512(const struct pattern *want, struct pattern *found, u64 spins)
{
	assert_fpu_section();
	__asm__ volatile(
		"vmovdqu64 0(%[w]), %%zmm0\n\t"
		"vmovdqu64 64(%[w]), %%zmm1\n\t"
		"vmovdqu64 128(%[w]), %%zmm2\n\t"
		"vmovdqu64 192(%[w]), %%zmm3\n\t"
		"vmovdqu64 256(%[w]), %%zmm4\n\t"
		"vmovdqu64 320(%[w]), %%zmm5\n\t"
		"vmovdqu64 384(%[w]), %%zmm6\n\t"
		"vmovdqu64 448(%[w]), %%zmm7\n\t"
		"vmovdqu64 512(%[w]), %%zmm8\n\t"
		"vmovdqu64 576(%[w]), %%zmm9\n\t"
		"vmovdqu64 640(%[w]), %%zmm10\n\t"
		"vmovdqu64 704(%[w]), %%zmm11\n\t"
		"vmovdqu64 768(%[w]), %%zmm12\n\t"
		"vmovdqu64 832(%[w]), %%zmm13\n\t"
		"vmovdqu64 896(%[w]), %%zmm14\n\t"
		"vmovdqu64 960(%[w]), %%zmm15\n\t"
		"vmovdqu64 1024(%[w]), %%zmm16\n\t"
		"vmovdqu64 1088(%[w]), %%zmm17\n\t"
		"vmovdqu64 1152(%[w]), %%zmm18\n\t"
		"vmovdqu64 1216(%[w]), %%zmm19\n\t"
		"vmovdqu64 1280(%[w]), %%zmm20\n\t"
		"vmovdqu64 1344(%[w]), %%zmm21\n\t"
		"vmovdqu64 1408(%[w]), %%zmm22\n\t"
		"vmovdqu64 1472(%[w]), %%zmm23\n\t"
		"vmovdqu64 1536(%[w]), %%zmm24\n\t"
		"vmovdqu64 1600(%[w]), %%zmm25\n\t"
		"vmovdqu64 1664(%[w]), %%zmm26\n\t"
		"vmovdqu64 1728(%[w]), %%zmm27\n\t"
		"vmovdqu64 1792(%[w]), %%zmm28\n\t"
		"vmovdqu64 1856(%[w]), %%zmm29\n\t"
		"vmovdqu64 1920(%[w]), %%zmm30\n\t"
		"vmovdqu64 1984(%[w]), %%zmm31\n\t"
		"kmovq 2048(%[w]), %%k0\n\t"
		"kmovq 2056(%[w]), %%k1\n\t"
		"kmovq 2064(%[w]), %%k2\n\t"
		"kmovq 2072(%[w]), %%k3\n\t"
		"kmovq 2080(%[w]), %%k4\n\t"
		"kmovq 2088(%[w]), %%k5\n\t"
		"kmovq 2096(%[w]), %%k6\n\t"
		"kmovq 2104(%[w]), %%k7\n\t"
		"ldmxcsr 2112(%[w])\n\t"
		"fldcw 2116(%[w])\n\t"
		"1: dec %[n]\n\t"
		"jns 1b\n\t"
		"vmovdqu64 %%zmm0, 0(%[f])\n\t"
		"vmovdqu64 %%zmm1, 64(%[f])\n\t"
		"vmovdqu64 %%zmm2, 128(%[f])\n\t"
		"vmovdqu64 %%zmm3, 192(%[f])\n\t"
		"vmovdqu64 %%zmm4, 256(%[f])\n\t"
		"vmovdqu64 %%zmm5, 320(%[f])\n\t"
		"vmovdqu64 %%zmm6, 384(%[f])\n\t"
		"vmovdqu64 %%zmm7, 448(%[f])\n\t"
		"vmovdqu64 %%zmm8, 512(%[f])\n\t"
		"vmovdqu64 %%zmm9, 576(%[f])\n\t"
		"vmovdqu64 %%zmm10, 640(%[f])\n\t"
		"vmovdqu64 %%zmm11, 704(%[f])\n\t"
		"vmovdqu64 %%zmm12, 768(%[f])\n\t"
		"vmovdqu64 %%zmm13, 832(%[f])\n\t"
		"vmovdqu64 %%zmm14, 896(%[f])\n\t"
		"vmovdqu64 %%zmm15, 960(%[f])\n\t"
		"vmovdqu64 %%zmm16, 1024(%[f])\n\t"
		"vmovdqu64 %%zmm17, 1088(%[f])\n\t"
		"vmovdqu64 %%zmm18, 1152(%[f])\n\t"
		"vmovdqu64 %%zmm19, 1216(%[f])\n\t"
		"vmovdqu64 %%zmm20, 1280(%[f])\n\t"
		"vmovdqu64 %%zmm21, 1344(%[f])\n\t"
		"vmovdqu64 %%zmm22, 1408(%[f])\n\t"
		"vmovdqu64 %%zmm23, 1472(%[f])\n\t"
		"vmovdqu64 %%zmm24, 1536(%[f])\n\t"
		"vmovdqu64 %%zmm25, 1600(%[f])\n\t"
		"vmovdqu64 %%zmm26, 1664(%[f])\n\t"
		"vmovdqu64 %%zmm27, 1728(%[f])\n\t"
		"vmovdqu64 %%zmm28, 1792(%[f])\n\t"
		"vmovdqu64 %%zmm29, 1856(%[f])\n\t"
		"vmovdqu64 %%zmm30, 1920(%[f])\n\t"
		"vmovdqu64 %%zmm31, 1984(%[f])\n\t"
		"kmovq %%k0, 2048(%[f])\n\t"
		"kmovq %%k1, 2056(%[f])\n\t"
		"kmovq %%k2, 2064(%[f])\n\t"
		"kmovq %%k3, 2072(%[f])\n\t"
		"kmovq %%k4, 2080(%[f])\n\t"
		"kmovq %%k5, 2088(%[f])\n\t"
		"kmovq %%k6, 2096(%[f])\n\t"
		"kmovq %%k7, 2104(%[f])\n\t"
		"stmxcsr 2112(%[f])\n\t"
		"fnstcw 2116(%[f])\n\t"
		"vzeroupper\n\t"
		: [n] "+r"(spins)
		: [w] "r"(want), [f] "r"(found)
		: "memory", "cc",
		  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
		  "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
		  "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23",
		  "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31",
		  "k1", "k2", "k3", "k4", "k5", "k6", "k7");
	fpu_default_mxcsr();
}

void clobber_vaes_avx512(void)
{
	/* Round towards zero, flush denormals; x87 in single precision. */
	static const u32 mxcsr = 0xff80;
	static const u16 fcw = 0x0c7f;

	assert_fpu_section();
	__asm__ volatile(
		"vpternlogd $0xff, %%zmm0, %%zmm0, %%zmm0\n\t"
		"vpternlogd $0xff, %%zmm1, %%zmm1, %%zmm1\n\t"
		"vpternlogd $0xff, %%zmm2, %%zmm2, %%zmm2\n\t"
		"vpternlogd $0xff, %%zmm3, %%zmm3, %%zmm3\n\t"
		"vpternlogd $0xff, %%zmm4, %%zmm4, %%zmm4\n\t"
		"vpternlogd $0xff, %%zmm5, %%zmm5, %%zmm5\n\t"
		"vpternlogd $0xff, %%zmm6, %%zmm6, %%zmm6\n\t"
		"vpternlogd $0xff, %%zmm7, %%zmm7, %%zmm7\n\t"
		"vpternlogd $0xff, %%zmm8, %%zmm8, %%zmm8\n\t"
		"vpternlogd $0xff, %%zmm9, %%zmm9, %%zmm9\n\t"
		"vpternlogd $0xff, %%zmm10, %%zmm10, %%zmm10\n\t"
		"vpternlogd $0xff, %%zmm11, %%zmm11, %%zmm11\n\t"
		"vpternlogd $0xff, %%zmm12, %%zmm12, %%zmm12\n\t"
		"vpternlogd $0xff, %%zmm13, %%zmm13, %%zmm13\n\t"
		"vpternlogd $0xff, %%zmm14, %%zmm14, %%zmm14\n\t"
		"vpternlogd $0xff, %%zmm15, %%zmm15, %%zmm15\n\t"
		"vpternlogd $0xff, %%zmm16, %%zmm16, %%zmm16\n\t"
		"vpternlogd $0xff, %%zmm17, %%zmm17, %%zmm17\n\t"
		"vpternlogd $0xff, %%zmm18, %%zmm18, %%zmm18\n\t"
		"vpternlogd $0xff, %%zmm19, %%zmm19, %%zmm19\n\t"
		"vpternlogd $0xff, %%zmm20, %%zmm20, %%zmm20\n\t"
		"vpternlogd $0xff, %%zmm21, %%zmm21, %%zmm21\n\t"
		"vpternlogd $0xff, %%zmm22, %%zmm22, %%zmm22\n\t"
		"vpternlogd $0xff, %%zmm23, %%zmm23, %%zmm23\n\t"
		"vpternlogd $0xff, %%zmm24, %%zmm24, %%zmm24\n\t"
		"vpternlogd $0xff, %%zmm25, %%zmm25, %%zmm25\n\t"
		"vpternlogd $0xff, %%zmm26, %%zmm26, %%zmm26\n\t"
		"vpternlogd $0xff, %%zmm27, %%zmm27, %%zmm27\n\t"
		"vpternlogd $0xff, %%zmm28, %%zmm28, %%zmm28\n\t"
		"vpternlogd $0xff, %%zmm29, %%zmm29, %%zmm29\n\t"
		"vpternlogd $0xff, %%zmm30, %%zmm30, %%zmm30\n\t"
		"vpternlogd $0xff, %%zmm31, %%zmm31, %%zmm31\n\t"
		"kxnorq %%k0, %%k0, %%k0\n\t"
		"kxnorq %%k1, %%k1, %%k1\n\t"
		"kxnorq %%k2, %%k2, %%k2\n\t"
		"kxnorq %%k3, %%k3, %%k3\n\t"
		"kxnorq %%k4, %%k4, %%k4\n\t"
		"kxnorq %%k5, %%k5, %%k5\n\t"
		"kxnorq %%k6, %%k6, %%k6\n\t"
		"kxnorq %%k7, %%k7, %%k7\n\t"
		"ldmxcsr %[mxcsr]\n\t"
		"fldcw %[fcw]\n\t"
		:
		: [mxcsr] "m"(mxcsr), [fcw] "m"(fcw)
		: "memory",
		  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
		  "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
		  "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23",
		  "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31",
		  "k1", "k2", "k3", "k4", "k5", "k6", "k7");
}
