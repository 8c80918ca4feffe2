/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A timed loop processes its list of messages repeatedly. One pass over the list is a lap, and the
 * last lap may be shorter. Within a lap, the loop only decrements a counter and advances its
 * pointers, because a call can take as little as 12 cycles.
 */
#ifndef KILN_BENCH_LAP_H
#define KILN_BENCH_LAP_H

#include <kiln/abi/messages.h>
#include <kiln/string.h>
#include <kiln/types.h>

/* Returns the number of calls in the next lap if @calls calls remain. */
static __always_inline u64 count_lap(const struct kiln_messages *m, u64 calls)
{
	return calls < m->count ? calls : m->count;
}

/* Copies the IVs for one lap, because functions and drivers modify them in place. */
static inline void copy_ivs(const struct kiln_messages *m, u64 n)
{
	if (m->iv_stride)
		memcpy(m->iv_room, m->iv, n * m->iv_stride);
}

#endif
