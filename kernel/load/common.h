/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Functions that the workloads share: round robin over messages, and single-stepping. */
#ifndef KILN_LOAD_COMMON_H
#define KILN_LOAD_COMMON_H

#include <kiln/types.h>

/* Returns the index of the message to use now, and advances @next, modulo @count. */
static inline u32 take_turn(u32 *next, u32 count)
{
	const u32 i = *next;

	*next = i + 1 == count ? 0 : i + 1;
	return i;
}

/* Sets or clears the trap flag. While it is set, each instruction causes a trap to the host. */
static __always_inline void set_trap_flag(const bool on)
{
	if (on)
		__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc");
	else
		__asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc");
}

#endif
