/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* An allocator for transforms and requests, in one block of memory that the host provides. */
#ifndef KILN_SLAB_H
#define KILN_SLAB_H

#include <kiln/types.h>

#define kmalloc kiln_kmalloc
#define kfree kiln_kfree

/*
 * Returns zeroed memory, aligned to 64 bytes, or NULL if memory is exhausted. kfree() wipes
 * the memory.
 */
void *kmalloc(size_t size);
void kfree(void *p);

/* Returns the number of allocations that have not been freed. */
size_t kiln_slab_in_use(void);

#endif
