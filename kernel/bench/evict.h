/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* evict.c: replaces what the caches of this core hold. */
#ifndef KILN_BENCH_EVICT_H
#define KILN_BENCH_EVICT_H

#include <kiln/types.h>

/* How often each line of memory is read, because caches do not replace exactly the oldest line. */
#define EVICT_PASSES 2

/* Reads @lines cache lines of @memory. Returns the sum of their first words. */
u64 evict_data(const u64 *memory, u64 lines);

/* Executes as many cache lines of code as it returns, more than a first-level cache holds. */
u64 evict_code(void);

#endif
