// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * An allocator for blocks of power-of-two sizes. There is one free list per size; memory that has
 * never been used is one contiguous range. Any context may allocate and free.
 */
#include <kiln/abi/cpu.h>
#include <kiln/slab.h>
#include <kiln/spinlock.h>
#include <kiln/string.h>

enum {
	HEADER = 64,		/* bytes before each block; a multiple of the block's alignment */
	SMALLEST = 7,		/* log2 of the smallest block: 128 bytes, including the header */
	LARGEST = 20,
	IN_USE = 0x75736564,
	FREE = 0x66726565,
};

struct piece {
	u32 order, state;
	struct piece *next;
};

static struct {
	struct spinlock lock;
	u8 *unused, *end;
	struct piece *free[LARGEST + 1];
	size_t in_use;
} slab;

void kiln_slab_give(void *memory, size_t size)
{
	const bool off = spin_lock_irqsave(&slab.lock);

	/* Accept the host's memory only once: a second range would replace the first. */
	if (!slab.unused) {
		slab.unused = (u8 *)(((u64)memory + 63) & ~63ull);
		slab.end = (u8 *)memory + size;
	}
	spin_unlock_irqrestore(&slab.lock, off);
}

size_t kiln_slab_in_use(void)
{
	return __atomic_load_n(&slab.in_use, __ATOMIC_RELAXED);
}

static struct piece *take(u32 order)
{
	struct piece *p = slab.free[order];

	if (p) {
		slab.free[order] = p->next;
		return p;
	}
	if (slab.end - slab.unused < (s64)1 << order)
		return NULL;
	p = (struct piece *)slab.unused;
	slab.unused += (size_t)1 << order;
	return p;
}

void *kmalloc(size_t size)
{
	struct piece *p;
	u32 order = SMALLEST;
	bool off;

	while (order <= LARGEST && ((size_t)1 << order) - HEADER < size)
		order++;
	if (order > LARGEST)
		return NULL;
	off = spin_lock_irqsave(&slab.lock);
	p = take(order);
	slab.in_use += p != NULL;
	spin_unlock_irqrestore(&slab.lock, off);
	if (!p)
		return NULL;
	p->order = order;
	p->state = IN_USE;
	memset((u8 *)p + HEADER, 0, ((size_t)1 << order) - HEADER);
	return (u8 *)p + HEADER;
}

void kfree(void *memory)
{
	struct piece *p = (struct piece *)((u8 *)memory - HEADER);
	bool off;

	if (!memory)
		return;
	/*
	 * If the block is not in use, this is a double free, or the memory was not allocated here.
	 * The allocator's data may be corrupt, so do not continue.
	 */
	if (p->state != IN_USE)
		__builtin_trap();
	memzero_explicit(memory, ((size_t)1 << p->order) - HEADER);
	off = spin_lock_irqsave(&slab.lock);
	p->state = FREE;
	p->next = slab.free[p->order];
	slab.free[p->order] = p;
	slab.in_use--;
	spin_unlock_irqrestore(&slab.lock, off);
}
