// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Kernel threads: each has a stack of its own, and runs when another waits. Nothing
 * preempts one. If all wait and nothing has moved, that is a deadlock.
 */
#include "service.h"

#define MOST 1024
#define STACK_SIZE (1ul << 17)	/* a kernel's is 16 KiB */

struct kthread {
	int (*fn)(void *data);
	void *data;
	uint64_t sp;		/* while switched out */
	char *stack;		/* kept for the next in this place */
	enum { FREE, CREATED, RUNNABLE } state;
	struct test test;
	uint64_t ran;		/* nanoseconds, until it was last switched out */
	uint64_t since;		/* when it was switched in */
};

static struct kthread threads[MOST];	/* the first is who runs the initcalls */
static unsigned int current_thread, highest;
static unsigned long idle;		/* switches since anything moved */

/* What a called function keeps, onto one stack and from another. */
void thread_switch(uint64_t *from, uint64_t to);

__asm__(".pushsection .text\n"
	"thread_switch:\n"
	"	push	%rbp\n"
	"	push	%rbx\n"
	"	push	%r12\n"
	"	push	%r13\n"
	"	push	%r14\n"
	"	push	%r15\n"
	"	mov	%rsp, (%rdi)\n"
	"	mov	%rsi, %rsp\n"
	"	pop	%r15\n"
	"	pop	%r14\n"
	"	pop	%r13\n"
	"	pop	%r12\n"
	"	pop	%rbx\n"
	"	pop	%rbp\n"
	"	ret\n"
	".popsection\n");

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

	return (thread->ran + now_ns() - thread->since) / 1000;
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
	threads[next].since = now_ns();
	threads[from].ran += threads[next].since - threads[from].since;
	current_thread = next;
	thread_switch(&threads[from].sp, threads[next].sp);
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
	uint64_t *sp;

	(void)node;
	(void)name;
	while (i < MOST && threads[i].state != FREE)
		i++;
	if (i == MOST)
		return (void *)(long)-ENOMEM;
	thread = &threads[i];
	if (!thread->stack)
		thread->stack = memory_alloc(STACK_SIZE, 0);
	if (!thread->stack)
		return (void *)(long)-ENOMEM;
	if (i > highest)
		highest = i;
	thread->fn = fn;
	thread->data = data;
	thread->test = (struct test){ .reached = false };
	thread->state = CREATED;
	sp = (uint64_t *)(thread->stack + STACK_SIZE);
	*--sp = 0;
	*--sp = (uint64_t)begin;
	thread->sp = (uint64_t)(sp - 6);
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
