// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Kernel threads: each has a stack of its own, and runs when another waits. Nothing
 * preempts one. If all wait and nothing has moved, that is a deadlock.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <ucontext.h>

#include "service.h"

#define MOST 1024
#define STACK_SIZE (1ul << 20)	/* a kernel's is 16 KiB; services need more */

struct kthread {
	int (*fn)(void *data);
	void *data;
	ucontext_t context;
	void *stack;		/* kept for the next in this place */
	enum { FREE, CREATED, RUNNABLE } state;
	struct test test;
	uint64_t ran_us;	/* until it was last switched out */
	uint64_t since;		/* when it was switched in */
};

static struct kthread threads[MOST];	/* the first is who runs the initcalls */
static unsigned int current_thread, highest;
static unsigned long idle;		/* switches since anything moved */

void progress(void)
{
	idle = 0;
}

struct test *current_test(void)
{
	return &threads[current_thread].test;
}

uint64_t thread_us(void)
{
	const struct kthread *thread = &threads[current_thread];

	return thread->ran_us + now_us() - thread->since;
}

void yield(void)
{
	const unsigned int from = current_thread;
	unsigned int next = from;

	if (++idle > 2ul * MOST)
		give_up("every thread waits for another: deadlock");
	do {
		next = next == highest ? 0 : next + 1;
	} while (next && threads[next].state != RUNNABLE);
	if (next == from)
		return;
	threads[next].since = now_us();
	threads[from].ran_us += threads[next].since - threads[from].since;
	current_thread = next;
	swapcontext(&threads[from].context, &threads[next].context);
}

bool threads_left(void)
{
	unsigned int i;

	for (i = 1; i <= highest; i++)
		if (threads[i].state == RUNNABLE)
			return true;
	return false;
}

static _Noreturn void end(void)
{
	threads[current_thread].state = FREE;
	progress();
	for (;;)
		yield();
}

static void begin(void)
{
	struct kthread *thread = &threads[current_thread];

	thread->fn(thread->data);
	end();
}

void *SERVICE(kthread_create_on_node)(int (*fn)(void *data), void *data, int node,
				      const char *name, ...)
{
	struct kthread *thread;
	unsigned int i = 1;

	(void)node;
	(void)name;
	while (i < MOST && threads[i].state != FREE)
		i++;
	if (i == MOST)
		return (void *)(long)-ENOMEM;
	thread = &threads[i];
	if (!thread->stack)
		thread->stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (thread->stack == MAP_FAILED) {
		thread->stack = NULL;
		return (void *)(long)-ENOMEM;
	}
	if (i > highest)
		highest = i;
	thread->fn = fn;
	thread->data = data;
	thread->test = (struct test){ .reached = false };
	thread->state = CREATED;
	getcontext(&thread->context);
	thread->context.uc_stack.ss_sp = thread->stack;
	thread->context.uc_stack.ss_size = STACK_SIZE;
	makecontext(&thread->context, begin, 0);
	return thread;
}

int SERVICE(wake_up_process)(struct kthread *thread)
{
	if (thread < threads || thread >= threads + MOST)
		give_up("wakes a task that is no kthread");
	if (thread->state == CREATED)
		thread->state = RUNNABLE;
	progress();
	return 1;
}

void SERVICE(kthread_exit)(long result)
{
	(void)result;
	if (!current_thread)
		give_up("kthread_exit outside a kthread");
	end();
}
