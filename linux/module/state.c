// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Saves and restores registers. All instructions that do so are in this file. */
#include "state.h"

/*
 * Bits of XCR0 for protection keys and AMX (Intel SDM volume 1, 13.3). Code in FPU sections does
 * not change these registers, and restoring them would be expensive or unsafe.
 */
#define UNTOUCHED (1ull << 9 | 3ull << 17)

enum { STATE_LEAF = 0xd };

static u64 features;
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

	/* OSXSAVE is set if the operating system has enabled XSAVE. */
	if (!(leaf(1, 0).c & 1u << 27))
		return 0;
	asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	features = ((u64)high << 32 | low) & ~UNTOUCHED;
	compact = leaf(STATE_LEAF, 1).a & 2;
	/* This is the size of the standard format. The compacted format is never larger. */
	return leaf(STATE_LEAF, 0).b;
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
