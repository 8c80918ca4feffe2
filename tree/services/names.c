// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Services whose names in other versions differ from those in 6.12. If the parameters differ too,
 * the function is in versions.c.
 */
#include "service.h"

void *SERVICE(alloc_pages_noprof)(unsigned int gfp, unsigned int order);
unsigned long SERVICE(get_free_pages_noprof)(unsigned int gfp, unsigned int order);
void *SERVICE(kmemdup_noprof)(const void *from, size_t size, unsigned int gfp);
unsigned long SERVICE(pcpu_alloc_noprof)(size_t size, size_t align, bool reserved,
					 unsigned int gfp);
_Noreturn void SERVICE(kthread_exit)(long result);

void *SERVICE(kiln_alloc)(size_t size, unsigned int gfp)
{
	return memory_alloc(size, gfp);
}

/* Before 6.10 these functions had no suffix. */
void *SERVICE(__kmalloc)(size_t size, unsigned int gfp)
{
	return memory_alloc(size, gfp);
}

void *SERVICE(__kmalloc_node)(size_t size, unsigned int gfp, int node)
{
	(void)node;
	return memory_alloc(size, gfp);
}

void *SERVICE(__kmalloc_node_track_caller)(size_t size, unsigned int gfp, int node,
					   unsigned long caller)
{
	(void)node;
	(void)caller;
	return memory_alloc(size, gfp);
}

void *SERVICE(kmalloc_trace)(void *cache, unsigned int gfp, size_t size)
{
	(void)cache;
	return memory_alloc(size, gfp);
}

/* Called for constant sizes that are too large for any slab cache. */
void *SERVICE(kmalloc_large)(size_t size, unsigned int gfp)
{
	return memory_alloc(size, gfp);
}

void *SERVICE(kvmalloc_node)(size_t size, unsigned int gfp, int node)
{
	(void)node;
	return memory_alloc(size, gfp);
}

void *SERVICE(vmalloc)(unsigned long size)
{
	return vmalloc_alloc(size, 0);
}

void *SERVICE(vmalloc_node)(unsigned long size, int node)
{
	(void)node;
	return SERVICE(vmalloc)(size);
}

void *SERVICE(vzalloc)(unsigned long size)
{
	return vmalloc_alloc(size, GFP_ZERO);
}

void *SERVICE(kmemdup)(const void *from, size_t size, unsigned int gfp)
{
	return SERVICE(kmemdup_noprof)(from, size, gfp);
}

unsigned long SERVICE(__get_free_pages)(unsigned int gfp, unsigned int order)
{
	return SERVICE(get_free_pages_noprof)(gfp, order);
}

void *SERVICE(alloc_pages)(unsigned int gfp, unsigned int order)
{
	return SERVICE(alloc_pages_noprof)(gfp, order);
}

/* Called by inline functions in trees without NUMA. */
void *SERVICE(__alloc_pages_noprof)(unsigned int gfp, unsigned int order, int node, void *mask)
{
	(void)node;
	(void)mask;
	return SERVICE(alloc_pages_noprof)(gfp, order);
}

void *SERVICE(__alloc_pages)(unsigned int gfp, unsigned int order, int node, void *mask)
{
	return SERVICE(__alloc_pages_noprof)(gfp, order, node, mask);
}

unsigned long SERVICE(__alloc_percpu)(size_t size, size_t align)
{
	return SERVICE(pcpu_alloc_noprof)(size, align, false, 0);
}

/* This function was added in 6.17. */
void *SERVICE(alloc_pages_node_noprof)(int node, unsigned int gfp, unsigned int order)
{
	(void)node;
	return SERVICE(alloc_pages_noprof)(gfp, order);
}

void *SERVICE(kmemdup_array)(const void *from, size_t count, size_t size, unsigned int gfp)
{
	if (size && count > ~0ul / size)
		return NULL;
	return SERVICE(kmemdup_noprof)(from, count * size, gfp);
}

struct sleeping_lock;
void SERVICE(__mutex_init)(struct sleeping_lock *lock);

void SERVICE(mutex_init_generic)(struct sleeping_lock *lock)
{
	SERVICE(__mutex_init)(lock);
}

/* Exits the kthread, as kthread_exit() does. */
_Noreturn void SERVICE(do_exit)(long code)
{
	SERVICE(kthread_exit)(code);
	__builtin_unreachable();
}

void SERVICE(___migrate_enable)(void)
{
}

/* Space for struct rq, where inline functions count tasks that have disabled migration. */
__attribute__((section(".data..percpu"), aligned(64))) char SERVICE(runqueues)[1 << 14];

/*
 * Trees with preemptible RCU call these functions. No code here waits for readers, so do nothing.
 */
void SERVICE(__rcu_read_lock)(void)
{
}

void SERVICE(__rcu_read_unlock)(void)
{
}


/*
 * Hardened usercopy calls this function to check that a range is inside one kernel object. It does
 * nothing, because all memory is one heap here.
 */
void SERVICE(__check_object_size)(const void *p, unsigned long n, bool to_user)
{
	(void)p;
	(void)n;
	(void)to_user;
}
