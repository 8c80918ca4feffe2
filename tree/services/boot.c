// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The image's entry points for its loader. kiln_image_setup() comes before there is a
 * CPU; the others are for kernel mode, on a CPU.
 */
#include "service.h"

extern int __kiln_initcalls[], __kiln_initcalls_end[];

struct boot boot;

static void *first_task;

int kiln_image_setup(const struct boot *given);
uint64_t kiln_image_start(void *unused);
uint64_t kiln_image_list(void *unused);

/* A call of the glue, in the tree's task. */
struct call {
	uint64_t (*fn)(void *arg);
	void *arg;
};

uint64_t kiln_image_call(struct call *call);

int kiln_image_setup(const struct boot *given)
{
	if (given->size != sizeof(boot))
		return -1;
	boot = *given;
	memory_init();
	first_task = kiln_glue_setup();
	percpu_init(first_task);
	return 0;
}

/* Whose current task the tree sees while it runs. */
static void *set_current(void *task)
{
	__asm__ volatile("xchgq %0, %%gs:0" : "+r"(task) : : "memory");
	return task;
}

/* The initcalls, each to its end with all that it started; how many there were. */
uint64_t kiln_image_start(void *unused)
{
	void *const before = set_current(first_task);
	unsigned long count = 0;
	int *p;

	(void)unused;
	for (p = __kiln_initcalls; p < __kiln_initcalls_end; p++) {
		int (*const initcall)(void) = (int (*)(void))((char *)p + *p);
		const int result = initcall();

		count++;
		if (result)
			tell("{\"event\":\"initcall\",\"address\":%lu,\"result\":%d}",
			     (unsigned long)initcall, result);
		while (run_work() || threads_left())
			yield();
	}
	set_current(before);
	return count;
}

static void report(const char *name, const char *driver, const char *type, int priority,
		   unsigned int flags)
{
	char a[256], b[256];

	tell("{\"event\":\"alg\",\"name\":\"%s\",\"driver\":\"%s\",\"type\":\"%s\","
	     "\"priority\":%d,\"async\":%s,\"internal\":%s,\"tested\":%s}",
	     quoted(name, a, sizeof(a)), quoted(driver, b, sizeof(b)), type, priority,
	     flags & 1 ? "true" : "false", flags & 2 ? "true" : "false",
	     flags & 4 ? "true" : "false");
}

/* The tests that the tree leaves out, and what is registered. */
uint64_t kiln_image_list(void *unused)
{
	void *const before = set_current(first_task);

	(void)unused;
	if (boot.tests)
		kiln_glue_test_internal();
	kiln_glue_algorithms(report);
	set_current(before);
	return 0;
}

uint64_t kiln_image_call(struct call *call)
{
	void *const before = set_current(first_task);
	const uint64_t result = call->fn(call->arg);

	set_current(before);
	return result;
}
