// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Entry points of the image, which the loader calls. kiln_image_setup() is called before any CPU
 * exists. kiln_image_jiffies() (time.c) may be called from any thread. All others must be called in
 * kernel mode.
 */
#include "service.h"

extern int __kiln_initcalls[], __kiln_initcalls_end[];

struct boot boot;
bool on_cpu;

int kiln_image_setup(const struct boot *given);
uint64_t kiln_image_cpu(void *unused);
uint64_t kiln_image_start(void *unused);
uint64_t kiln_image_tests(void *wanted);
uint64_t kiln_image_list(void *unused);

int kiln_image_setup(const struct boot *given)
{
	if (given->size != sizeof(boot))
		return -1;
	boot = *given;
	patch_init();
	memory_init();
	time_init();
	kiln_glue_setup(boot.tiers, boot.hidden);
	alternatives_init();
	percpu_init();
	return 0;
}

/* Attaches the tree to the CPU that has just booted. Returns 0 on success. */
uint64_t kiln_image_cpu(void *unused)
{
	static const struct kiln_hooks hooks = {
		.new_task = new_task,
		.tick = time_tick,
		.idle = time_idle,
		.uncounted = kiln_glue_uncounted,
		.context = kiln_glue_context,
		.worked = kiln_glue_worked,
	};

	(void)unused;
	on_cpu = true;
	workqueue_cpu_starts();
	softirq_cpu_starts();
	return kiln_attach(&hooks) ? 0 : 1;
}

/* Runs each initcall and waits for all work that it started. Returns the number of initcalls. */
uint64_t kiln_image_start(void *unused)
{
	unsigned long count = 0;
	int *p;

	(void)unused;
	if (boot.tests)
		kiln_glue_note_requests(NULL);
	for (p = __kiln_initcalls; p < __kiln_initcalls_end; p++) {
		int (*const initcall)(void) = (int (*)(void))((char *)p + *p);
		const int result = initcall();

		count++;
		if (result)
			tell("{\"event\":\"initcall\",\"address\":%lu,\"result\":%d}",
			     (unsigned long)initcall, result);
		wait_for_threads();
		wait_for_work();
		wait_for_threads();
	}
	return count;
}

/* Sets whether algorithms registered from now on are tested. */
uint64_t kiln_image_tests(void *wanted)
{
	boot.tests = !!wanted;
	return 0;
}

/* Runs the tests that the tree skips, and reports all registered algorithms. */
uint64_t kiln_image_list(void *unused)
{
	(void)unused;
	if (boot.tests)
		kiln_glue_test_internal();
	kiln_glue_algorithms(NULL, tell_algorithm);
	return 0;
}
