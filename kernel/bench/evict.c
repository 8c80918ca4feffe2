// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Replaces the contents of L1 and L2, as other work does while a cipher is not in use.
 *
 * Reading several times as much memory as L2 holds replaces the lines in L2 and in the L1 data
 * cache. On CPUs whose L2 does not include L1, code may remain in the L1 instruction cache and in
 * the cache of decoded instructions. Executing 128 KiB of code, twice the size of the largest L1
 * instruction cache, replaces the contents of both caches.
 */
#include "evict.h"

enum { LINE = 64 };

u64 evict_data(const u64 *memory, u64 lines)
{
	/* Volatile, so that the compiler does not merge the passes. */
	const volatile u64 *const word = memory;
	u64 sum = 0, i;
	int pass;

	for (pass = 0; pass < EVICT_PASSES; pass++)
		for (i = 0; i < lines; i++)
			sum += word[i * (LINE / sizeof(*memory))];
	return sum;
}

noinline u64 evict_code(void)
{
	u64 lines = 0;

	__asm__ volatile(".balign 64\n\t"
			 ".rept 2048\n\t"
			 "inc %0\n\t"
			 "jmp 1f\n\t"
			 ".balign 64\n"
			 "1:\n\t"
			 ".endr"
			 : "+r"(lines)
			 :
			 : "cc");
	return lines;
}
