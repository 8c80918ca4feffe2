// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The tree's self-tests, one by one, as the glue meets them.
 */
#include "service.h"

const char *kiln_image_test(void);
void kiln_image_testing(const char *name);

/* The driver that this thread tests, or "": for whoever reports a crash. */
const char *kiln_image_test(void)
{
	return current_test()->driver;
}

/* Names what this thread is about to call. */
void kiln_image_testing(const char *name)
{
	struct test *test = current_test();

	format(test->driver, sizeof(test->driver), "%s", name);
}

uint64_t SERVICE(kiln_test_begin)(const char *name)
{
	struct test *test = current_test();

	format(test->driver, sizeof(test->driver), "%s", name);
	test->reached = false;
	return thread_us();
}

void SERVICE(kiln_test_end)(const char *name, const char *alg, int result, uint64_t start)
{
	char a[256], b[256];

	tell("{\"event\":\"test\",\"driver\":\"%s\",\"alg\":\"%s\",\"result\":%d,\"us\":%lu,"
	     "\"reached\":%s}",
	     quoted(name, a, sizeof(a)), quoted(alg, b, sizeof(b)), result,
	     (unsigned long)(thread_us() - start),
	     current_test()->reached ? "true" : "false");
	current_test()->driver[0] = 0;
}

void SERVICE(kiln_test_reached)(const char *name)
{
	struct test *test = current_test();

	if (same(test->driver, name))
		test->reached = true;
}

/* 0: run it. Otherwise what it is to return. */
int SERVICE(kiln_test_skipped)(const char *name, bool *skipped)
{
	const char *const *s;

	*skipped = !boot.tests;
	for (s = boot.skipped; s && *s; s++) {
		if (same(*s, name)) {
			*skipped = true;
			return -EIO;
		}
	}
	return 0;
}
