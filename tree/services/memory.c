// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Memory allocator: power-of-two blocks from one arena. Each block is aligned to its size, as
 * kmalloc guarantees. Pages are allocated from the same arena.
 *
 * Physical addresses equal virtual addresses (page_offset_base and phys_base are 0), so
 * virt_to_page() is plain arithmetic. The array of struct page is reserved address space that
 * covers all pages, and uses memory only where it is accessed.
 *
 * A vmalloc'ed block is between two extra pages: the page before it holds its length, and the page
 * after it is an unmapped guard page.
 */
#include "service.h"

#define PAGE_SHIFT 12
#define PAGE_SIZE (1ul << PAGE_SHIFT)
#define SMALLEST 6	/* the smallest block has a size of 2^6 = 64 bytes */
#define LARGEST 27
#define STRUCT_PAGE 64
#define VMALLOCED 0x80	/* page class: the underlying block starts one page earlier */
#define SYS_MPROTECT 10
#define PROT_RW 3

struct block {
	struct block *next;
};

static char *arena;
static unsigned long fresh;		/* start of the pages that have never been allocated */
static unsigned char *class_of;		/* class per page, set on a block's first page */
static struct block *freed[LARGEST + 1];
static volatile unsigned char lock;	/* protects the allocator; may be taken in any context */

unsigned long SERVICE(page_offset_base), SERVICE(phys_base);
unsigned long SERVICE(vmemmap_base), SERVICE(vmalloc_base);
char SERVICE(empty_zero_page)[PAGE_SIZE] __attribute__((aligned(PAGE_SIZE)));
void *SERVICE(__zero_page);	/* struct page of the zero page; used since 7.0 */
char SERVICE(kmalloc_caches)[1 << 16];
char SERVICE(hugetlb_optimize_vmemmap_key)[64];

void memory_init(void)
{
	guard_init();
	arena = boot.arena;
	class_of = boot.page_class;
	SERVICE(vmemmap_base) = boot.struct_pages;
	SERVICE(__zero_page) = (void *)(boot.struct_pages + ((unsigned long)SERVICE(empty_zero_page) >>
						     PAGE_SHIFT) * STRUCT_PAGE);
}

static void *carve(unsigned int class)
{
	const unsigned long size = 1ul << class;
	const unsigned long run = size < PAGE_SIZE ? PAGE_SIZE : size;
	const unsigned long at = (fresh + run - 1) & ~(run - 1);
	unsigned long i;

	if (at + run > boot.arena_size)
		return NULL;
	fresh = at + run;
	class_of[at >> PAGE_SHIFT] = (unsigned char)class;
	for (i = size; i < run; i += size) {
		struct block *b = (void *)(arena + at + i);

		b->next = freed[class];
		freed[class] = b;
	}
	return arena + at;
}

static void fill_block(void *p, size_t size)
{
	char *byte = p;

	while (size--)
		*byte++ = (char)guard_fill();
}

void *memory_alloc(size_t size, unsigned int gfp)
{
	unsigned int class = SMALLEST;
	unsigned long flags;
	void *p;

	if (gfp & kiln_glue_gfp_sleeps)
		may_sleep("allocates memory with a flag that lets it sleep");
	if (guard_fails())
		return NULL;
	if (guard_wanted()) {
		p = guard_alloc(size, false, false);
		goto out;
	}
	while ((1ul << class) < size)
		if (++class > LARGEST)
			return NULL;
	flags = lock_irq(&lock);
	p = freed[class];
	if (p)
		freed[class] = freed[class]->next;
	else
		p = carve(class);
	unlock_irq(&lock, flags);
out:
	if (p && (gfp & GFP_ZERO))
		clear(p, size);
	else if (p && guard_fill() >= 0)
		fill_block(p, size);
	return p;
}

static void vmalloc_free(char *p);

static unsigned int block_class(const void *p)
{
	const unsigned long at = (unsigned long)p - (unsigned long)arena;

	if (at >= boot.arena_size)
		give_up("freed memory that was never allocated");
	return class_of[at >> PAGE_SHIFT];
}

static unsigned long block_size(const void *p)
{
	unsigned int class;

	if (guard_owns(p))
		return guard_size(p);
	class = block_class(p);
	return class & VMALLOCED ? *(unsigned long *)((char *)p - PAGE_SIZE) : 1ul << class;
}

static void protect(void *at, unsigned long flags)
{
	if (syscall3(SYS_MPROTECT, (long)at, PAGE_SIZE, (long)flags))
		give_up("no memory left for a guard page");
}

void *vmalloc_alloc(size_t size, unsigned int gfp)
{
	const unsigned long pages = (size + PAGE_SIZE - 1) & ~(PAGE_SIZE - 1);
	char *block, *p;

	may_sleep("vmalloc");
	/*
	 * The guard heap places its own unmapped page after each block, so no extra pages are
	 * needed.
	 */
	if (guard_wanted())
		return memory_alloc(size, gfp);
	block = memory_alloc(pages + 2 * PAGE_SIZE, gfp & ~GFP_ZERO);
	p = block + PAGE_SIZE;
	if (!block)
		return NULL;
	*(unsigned long *)block = pages;
	class_of[(unsigned long)(p - arena) >> PAGE_SHIFT] = VMALLOCED;
	protect(p + pages, 0);
	if (gfp & GFP_ZERO)
		clear(p, pages);
	return p;
}

static void vmalloc_free(char *p)
{
	char *block = p - PAGE_SIZE;

	protect(p + *(unsigned long *)block, PROT_RW);
	class_of[(unsigned long)(p - arena) >> PAGE_SHIFT] = 0;
	memory_free(block);
}

void memory_free(const void *p)
{
	struct block *b = (void *)p;
	unsigned long flags;
	unsigned int class;

	/* Callers may free NULL and ZERO_SIZE_PTR, which has no effect. */
	if ((unsigned long)p <= 16)
		return;
	if (guard_owns(p)) {
		guard_free(p);
		return;
	}
	class = block_class(p);
	if (class & VMALLOCED) {
		vmalloc_free((char *)p);
		return;
	}
	flags = lock_irq(&lock);
	b->next = freed[class];
	freed[class] = b;
	unlock_irq(&lock, flags);
}

void *SERVICE(__kmalloc_noprof)(size_t size, unsigned int gfp)
{
	return memory_alloc(size, gfp);
}

void *SERVICE(__kmalloc_large_noprof)(size_t size, unsigned int gfp)
{
	return memory_alloc(size, gfp);
}

void *SERVICE(__kmalloc_cache_noprof)(void *cache, unsigned int gfp, size_t size)
{
	(void)cache;
	return memory_alloc(size, gfp);
}

void *SERVICE(vmalloc_noprof)(unsigned long size)
{
	return vmalloc_alloc(size, 0);
}

void *SERVICE(vmalloc_node_noprof)(unsigned long size, int node)
{
	(void)node;
	return SERVICE(vmalloc_noprof)(size);
}

void *SERVICE(vzalloc_noprof)(unsigned long size)
{
	return vmalloc_alloc(size, GFP_ZERO);
}

void SERVICE(kfree)(const void *p)
{
	memory_free(p);
}

void SERVICE(kfree_sensitive)(const void *p)
{
	if ((unsigned long)p <= 16)
		return;
	clear((void *)p, block_size(p));
	memory_free(p);
}

void SERVICE(kvfree)(const void *p)
{
	memory_free(p);
}

void SERVICE(kvfree_sensitive)(const void *p, size_t size)
{
	(void)size;
	SERVICE(kfree_sensitive)(p);
}

void SERVICE(vfree)(const void *p)
{
	memory_free(p);
}

void *SERVICE(kmemdup_noprof)(const void *from, size_t size, unsigned int gfp)
{
	void *p = memory_alloc(size, gfp & ~GFP_ZERO);

	return p ? copy(p, from, size) : NULL;
}

static char *duplicate(const char *from, size_t most, unsigned int gfp)
{
	size_t n = 0;
	char *p;

	if (!from)
		return NULL;
	while (n < most && from[n])
		n++;
	p = memory_alloc(n + 1, gfp & ~GFP_ZERO);
	if (p) {
		copy(p, from, n);
		p[n] = 0;
	}
	return p;
}

char *SERVICE(kstrndup)(const char *from, size_t most, unsigned int gfp)
{
	return duplicate(from, most, gfp);
}

char *SERVICE(kstrdup)(const char *from, unsigned int gfp)
{
	return duplicate(from, ~0ul, gfp);
}

char *SERVICE(kmemdup_nul)(const char *from, size_t size, unsigned int gfp)
{
	return duplicate(from, size, gfp);
}

/* Always copies the string. The kernel does not copy constant strings, which only saves memory. */
const char *SERVICE(kstrdup_const)(const char *from, unsigned int gfp)
{
	return duplicate(from, ~0ul, gfp);
}

unsigned long SERVICE(get_free_pages_noprof)(unsigned int gfp, unsigned int order)
{
	return (unsigned long)memory_alloc(PAGE_SIZE << order, gfp);
}

void SERVICE(free_pages)(unsigned long at, unsigned int order)
{
	(void)order;
	memory_free((const void *)at);
}

void *SERVICE(alloc_pages_noprof)(unsigned int gfp, unsigned int order)
{
	const unsigned long at = SERVICE(get_free_pages_noprof)(gfp, order);

	if (!at)
		return NULL;
	return (void *)(SERVICE(vmemmap_base) + (at >> PAGE_SHIFT) * STRUCT_PAGE);
}

void SERVICE(__free_pages)(void *page, unsigned int order)
{
	const unsigned long n = (unsigned long)page - SERVICE(vmemmap_base);

	(void)order;
	memory_free((const void *)(n / STRUCT_PAGE << PAGE_SHIFT));
}

/* Returns 0, because all memory is part of the direct map. */
int SERVICE(is_vmalloc_or_module_addr)(const void *p)
{
	(void)p;
	return 0;
}

bool SERVICE(is_vmalloc_addr)(const void *p)
{
	(void)p;
	return false;
}
