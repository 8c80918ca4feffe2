// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Saves and restores registers. All instructions that do so are in this file. */
#include <linux/minmax.h>
#include <linux/string.h>

#include "state.h"

/*
 * Bits of XCR0 for protection keys and AMX (Intel SDM volume 1, 13.3). Code in FPU sections does
 * not change these registers, and restoring them would be expensive or unsafe.
 */
#define UNTOUCHED (1ull << 9 | 3ull << 17)

enum { STATE_LEAF = 0xd };

/*
 * Both formats begin with the x87 and SSE registers, followed by a header. The header's first field
 * is a bitmap of the components that were in use. Component 2, the upper halves of the AVX
 * registers, always directly follows the header.
 */
enum { HEADER_AT = 512, AVX_END = 832, UP_TO_AVX = 7 };

static u64 features;
static u32 area_size;
static bool compact;

struct regs {
	u32 a, b, c, d;
};

static struct regs leaf(u32 number, u32 part)
{
	struct regs r = { .a = number, .c = part };

	asm volatile("cpuid" : "+a"(r.a), "=b"(r.b), "+c"(r.c), "=d"(r.d));
	return r;
}

u32 kiln_state_init(void)
{
	u32 low, high;

	/*
	 * OSXSAVE is clear if the operating system has not enabled XSAVE. XGETBV would then fault.
	 */
	if (!(leaf(1, 0).c & 1u << 27))
		return 0;
	asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	features = ((u64)high << 32 | low) & ~UNTOUCHED;
	compact = leaf(STATE_LEAF, 1).a & 2;
	/* This is the size of the standard format. The compacted format is never larger. */
	area_size = leaf(STATE_LEAF, 0).b;
	return area_size;
}

void kiln_state_save(u8 *area)
{
	const u32 low = features, high = features >> 32;

	if (compact)
		asm volatile("xsavec64 %0" : "+m"(*(u8 (*)[])area) : "a"(low), "d"(high) : "memory");
	else
		asm volatile("xsave64 %0" : "+m"(*(u8 (*)[])area) : "a"(low), "d"(high) : "memory");
}

void kiln_state_restore(const u8 *area)
{
	const u32 low = features, high = features >> 32;

	asm volatile("xrstor64 %0" : : "m"(*(const u8 (*)[])area), "a"(low), "d"(high) : "memory");
}

/*
 * With AVX-512, two thirds of an area are beyond AVX_END. They are wiped only if they were in use,
 * which is rare.
 */
void kiln_state_wipe(u8 *area)
{
	const u64 used = *(const u64 *)(area + HEADER_AT);

	memzero_explicit(area, used & ~(u64)UP_TO_AVX ? area_size : min_t(u32, area_size, AVX_END));
}
