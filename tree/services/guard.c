// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A heap whose blocks end at an unmapped page, or begin right after one. After kiln_guard(true),
 * all of the tree's allocations use this heap. A block has exactly the requested size. Between the
 * end of a block and the end of its page, there is at most the padding required for kmalloc's
 * 8-byte alignment. The padding is checked when the block is freed.
 *
 * The pages form a ring: freed pages stay unmapped until the ring wraps around. Between two blocks
 * there is always at least one unmapped page.
 */
#include "service.h"

#define PAGE_SIZE 4096ul
#define HEAP (1ul << 30)
#define PAGES (HEAP / PAGE_SIZE)
#define SYS_MPROTECT 10
#define SYS_MADVISE 28
#define MADV_DONTNEED 4
#define PROT_RW 3
#define PATTERN 0x5d
#define ALIGNMENT 8
#define DEEPEST 12

/* A block. There is one slot per page, and a block uses the slot of its first page. */
struct slot {
	size_t size;		/* rounded up to the alignment; 0 if no block begins here */
	size_t asked;
	uint32_t pages;
	bool at_start;
	unsigned long number;	/* sequence number of the allocation */
	unsigned long trace[DEEPEST];
	unsigned int depth;
};

static char *heap;
static struct slot *slots;
static unsigned char *taken;	/* for each page, whether it is in use */
static unsigned long cursor;
static unsigned long numbers;	/* sequence number of the last allocation; starts at 1 */
static bool wanted;
static int fill = -1;
static long failing = -1;
static unsigned long since;	/* number of allocations since kiln_fail() was called */
static volatile unsigned char lock;

/* Reserves the end of the arena for the heap. Must be called once, before any allocation. */
void guard_init(void)
{
	const unsigned long table = PAGES * sizeof(struct slot) + PAGES;

	boot.arena_size -= HEAP + ((table + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1));
	heap = boot.arena + boot.arena_size;
	slots = (struct slot *)(heap + HEAP);
	taken = (unsigned char *)(slots + PAGES);
}

bool guard_owns(const void *p)
{
	return (unsigned long)p - (unsigned long)heap < HEAP;
}

bool guard_wanted(void)
{
	return wanted;
}

int guard_fill(void)
{
	return fill;
}

/* Counts an allocation. Returns whether this allocation must fail. */
bool guard_fails(void)
{
	const unsigned long nr = __atomic_fetch_add(&since, 1, __ATOMIC_RELAXED);

	return failing >= 0 && nr == (unsigned long)failing;
}

/*
 * Finds @n free pages between two other free pages, and returns the number of the first. The caller
 * must hold the lock.
 */
static unsigned long find(unsigned long n)
{
	unsigned long i, run = 0, looked = 0;

	for (i = cursor; looked < 2 * PAGES; i++, looked++) {
		if (i >= PAGES)
			i = run = 0;
		run = taken[i] ? 0 : run + 1;
		if (run == n + 2)
			return i - n;
	}
	give_up("the heap of the memory oracle is full");
}

static char *block_of(const struct slot *slot)
{
	char *at = heap + (unsigned long)(slot - slots) * PAGE_SIZE;
	unsigned long size = slot->size;

	if (slot->at_start)
		return at;
	return at + slot->pages * PAGE_SIZE - size;
}

static void change(unsigned long first, unsigned long pages, long protection)
{
	if (syscall3(SYS_MPROTECT, (long)(heap + first * PAGE_SIZE), (long)(pages * PAGE_SIZE),
		     protection))
		give_up("no memory left for guard pages");
}

void *guard_alloc(size_t size, bool at_start, bool exact)
{
	const size_t whole = exact ? size : (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
	const unsigned long pages = whole ? (whole + PAGE_SIZE - 1) / PAGE_SIZE : 1;
	struct slot *slot;
	unsigned long flags, first, i;
	char *p;

	if (pages > PAGES / 4)
		return NULL;
	flags = lock_irq(&lock);
	if (!cursor) {
		change(0, PAGES, 0);
		cursor = 1;
	}
	first = find(pages);
	for (i = 0; i < pages; i++)
		taken[first + i] = 1;
	cursor = first + pages;
	slot = &slots[first];
	slot->size = whole ? whole : 1;
	slot->asked = exact ? slot->size : size;
	slot->pages = (uint32_t)pages;
	slot->at_start = at_start;
	slot->number = ++numbers;
	change(first, pages, PROT_RW);
	unlock_irq(&lock, flags);
	slot->depth = kiln_image_trace(__builtin_frame_address(0), slot->trace, DEEPEST);
	p = whole ? block_of(slot) : heap + (first + pages) * PAGE_SIZE;
	if (!exact)
		for (i = size; i < whole; i++)
			p[i] = PATTERN;
	return p;
}

static struct slot *slot_of(const void *p)
{
	unsigned long page = ((unsigned long)p - (unsigned long)heap) / PAGE_SIZE;
	struct slot *slot = &slots[page];

	/* A block of size 0 occupies no page. Its address is the start of the next guard page. */
	if (!slot->size && page)
		slot--;
	if (!slot->size || !taken[slot - slots])
		give_up("freed memory that is not allocated");
	return slot;
}

size_t guard_size(const void *p)
{
	return slot_of(p)->asked;
}

void guard_free(const void *p)
{
	const unsigned long flags = lock_irq(&lock);
	struct slot *slot = slot_of(p);
	const unsigned long first = (unsigned long)(slot - slots);
	char *at = heap + first * PAGE_SIZE;
	bool written = false;
	unsigned long i;

	for (i = slot->asked; slot->asked && i < slot->size; i++)
		written |= block_of(slot)[i] != PATTERN;
	syscall3(SYS_MADVISE, (long)at, (long)(slot->pages * PAGE_SIZE), MADV_DONTNEED);
	change(first, slot->pages, 0);
	for (i = 0; i < slot->pages; i++)
		taken[first + i] = 0;
	slot->size = 0;
	unlock_irq(&lock, flags);
	if (written)
		violated_at("write-outside", "bytes behind an allocated block were written before it is freed",
			    slot->trace, slot->depth);
}

void SERVICE(kiln_guard)(bool on)
{
	wanted = on;
}

void *SERVICE(kiln_fence)(unsigned long size, bool at_start)
{
	return guard_alloc(size, at_start, true);
}

void SERVICE(kiln_unfence)(void *p)
{
	if (p)
		guard_free(p);
}

void SERVICE(kiln_fill)(int byte)
{
	fill = byte;
}

void SERVICE(kiln_fail)(long nr)
{
	since = 0;
	failing = nr;
}

unsigned long SERVICE(kiln_allocations)(void)
{
	return since;
}

unsigned long SERVICE(kiln_mark)(void)
{
	return numbers;
}

/* Returns the number of blocks allocated after @mark and not freed since. */
unsigned long SERVICE(kiln_leaked)(unsigned long mark, bool tell_them)
{
	unsigned long i, n = 0;
	char what[96];

	for (i = 0; i < PAGES && numbers > mark; i++) {
		const struct slot *slot = &slots[i];

		if (!slot->size || slot->number <= mark)
			continue;
		n++;
		if (tell_them && n <= 4) {
			format(what, sizeof(what), "%lu bytes are not freed", slot->size);
			violated_at("leak", what, slot->trace, slot->depth);
		}
	}
	return n;
}
