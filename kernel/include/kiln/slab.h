/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Memory for transforms and requests, from one piece that the host provides.
 */
#ifndef KILN_SLAB_H
#define KILN_SLAB_H

#include <kiln/types.h>

#define kmalloc kiln_kmalloc
#define kfree kiln_kfree

/* The memory is zeroed and aligned to 64. Returns NULL if it is exhausted. Freed memory is wiped. */
void *kmalloc(size_t size);
void kfree(void *p);

/* Pieces handed out and not yet returned. */
size_t kiln_slab_in_use(void);

#endif
