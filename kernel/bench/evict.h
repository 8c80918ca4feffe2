/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* evict.c: replaces the contents of L1 and L2. */
#ifndef KILN_BENCH_EVICT_H
#define KILN_BENCH_EVICT_H

#include <kiln/types.h>

/*
 * Number of passes over the memory. Caches do not evict in exact LRU order, so a single pass may
 * leave old lines in the cache.
 */
#define EVICT_PASSES 2

/* Reads @lines cache lines of @memory. Returns the sum of their first words over all passes. */
u64 evict_data(const u64 *memory, u64 lines);

/* Executes 128 KiB of code. Returns the number of cache lines that were executed. */
u64 evict_code(void);

#endif
