// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Per-CPU data. Each CPU has an area, and its GS base points to this area. The layout of an area
 * is:
 *
 *	0		struct cpu, which begins like struct pcpu_hot
 *	0xf0000		single words that a tree addresses by symbol
 *	0x100000	the tree's .data..percpu, at its link address (host.ld),
 *			initialised by the loader
 *	after that	memory that the tree allocates
 *
 * As in a kernel, a per-CPU address is an offset into the area.
 */
#include "service.h"

/* Absolute symbols, defined by the linker script. */
extern char this_cpu_off[];

#define MASK_WORDS 128

static unsigned long used;

unsigned long SERVICE(__per_cpu_offset)[MASK_WORDS * 64];
unsigned long SERVICE(__cpu_possible_mask)[MASK_WORDS];
unsigned long SERVICE(__cpu_online_mask)[MASK_WORDS];
unsigned long SERVICE(__cpu_present_mask)[MASK_WORDS];
unsigned int SERVICE(nr_cpu_ids);
int SERVICE(__num_online_cpus);

void percpu_init(void)
{
	unsigned int i;

	used = boot.area_used;
	SERVICE(nr_cpu_ids) = boot.cpus;
	SERVICE(__num_online_cpus) = (int)boot.cpus;
	for (i = 0; i < boot.cpus; i++) {
		char *area = boot.areas + i * boot.area_size;

		*(unsigned long *)(area + (unsigned long)this_cpu_off) = (unsigned long)area;
		SERVICE(__per_cpu_offset)[i] = (unsigned long)area;
		SERVICE(__cpu_possible_mask)[i / 64] |= 1ul << i % 64;
		SERVICE(__cpu_online_mask)[i / 64] |= 1ul << i % 64;
		SERVICE(__cpu_present_mask)[i / 64] |= 1ul << i % 64;
	}
}

/* Allocates zeroed memory, which has the same offset in every CPU's area. */
unsigned long SERVICE(pcpu_alloc_noprof)(size_t size, size_t align, bool reserved,
					 unsigned int gfp)
{
	static volatile unsigned char lock;
	const unsigned long flags = lock_irq(&lock);
	unsigned long at;

	(void)reserved;
	(void)gfp;
	if (align < 16)
		align = 16;
	at = (used + align - 1) & ~(align - 1);
	if (at + size > boot.area_size)
		at = 0;
	else
		used = at + size;
	unlock_irq(&lock, flags);
	return at;
}

/* Does nothing. The areas are so large that freed memory need not be reused. */
void SERVICE(free_percpu)(unsigned long at)
{
	(void)at;
}
