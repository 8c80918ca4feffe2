// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Records each of the tree's self-tests, which glue.c begins and ends. */
#include "service.h"

void kiln_image_testing(const char *name);

/* List of the running tests, most recently started first. */
static struct test *tests;
static volatile unsigned char lock;

/*
 * Returns a driver for crash reports: the driver that an oracle examines; else the driver whose
 * test this thread runs, or for whose test it answers a request; else the driver of the most
 * recently started test, which waits for the work of this thread; else "".
 */
const char *kiln_image_test(void)
{
	const char *subject = oracle_subject();

	if (*subject)
		return subject;
	if (current_test()->driver[0] || !tests)
		return current_test()->driver;
	return tests->driver;
}

/*
 * Called before and after each request. Exchanges @note with the current note, so that the caller
 * can restore the previous one.
 */
void SERVICE(kiln_note_request)(struct request_note *note)
{
	struct request_note *own = &current_test()->note;
	const struct request_note before = *own;

	*own = *note;
	*note = before;
}

/*
 * Queued requests, with the test that made each. If a thread such as cryptd's crashes while it
 * answers a request, the crash is attributed to that test. New entries overwrite the oldest.
 */
#define QUEUED 64

static struct queued {
	const void *request;
	char driver[128];
	struct request_note note;
} queued[QUEUED];
static unsigned int queued_next;

void SERVICE(kiln_note_queued)(const void *request)
{
	const struct test *test = current_test();
	const unsigned long flags = lock_irq(&lock);
	struct queued *q = &queued[queued_next++ % QUEUED];

	q->request = request;
	q->note = test->note;
	format(q->driver, sizeof(q->driver), "%s",
	       test->driver[0] || !tests ? test->driver : tests->driver);
	unlock_irq(&lock, flags);
}

/* Records that this thread now answers @request, or no request if it is NULL. */
void SERVICE(kiln_note_dequeued)(const void *request)
{
	struct test *test = current_test();
	const unsigned long flags = lock_irq(&lock);
	unsigned int i;

	test->driver[0] = 0;
	test->note.function = NULL;
	for (i = 0; request && i < QUEUED; i++) {
		struct queued *q = &queued[i];

		if (q->request != request)
			continue;
		copy(test->driver, q->driver, sizeof(test->driver));
		test->note = q->note;
		q->request = NULL;
	}
	unlock_irq(&lock, flags);
}

/* Formats the request that this thread is making. Returns the length, or 0 without a request. */
int test_request(char *to, size_t size)
{
	const struct request_note *note = &current_test()->note;
	int n;

	if (!note->function)
		return 0;
	n = format(to, size, "%s() of %s, %lu bytes", note->function, note->driver, note->len);
	if (note->aad)
		n += format(to + n, size - n, ", %lu bytes of associated data", note->aad);
	if (note->src != -1ul)
		n += format(to + n, size - n, ", source at page offset %lu", note->src);
	if (note->dst != -1ul)
		n += format(to + n, size - n, ", destination at page offset %lu", note->dst);
	return n;
}

/* Records the name of the driver or function that this thread is about to call. */
void kiln_image_testing(const char *name)
{
	struct test *test = current_test();

	format(test->driver, sizeof(test->driver), "%s", name);
}

bool tests_run(void)
{
	return tests;
}

void test_hangs(const char *why)
{
	const unsigned long flags = lock_irq(&lock);
	const char *const driver = tests ? tests->driver : "";

	unlock_irq(&lock, flags);
	give_up_in(why, driver);
}

void tell_algorithm(const char *name, const char *driver, const char *type, int priority,
		    unsigned int flags)
{
	char a[256], b[256];

	tell("{\"event\":\"alg\",\"name\":\"%s\",\"driver\":\"%s\",\"type\":\"%s\","
	     "\"priority\":%d,\"async\":%s,\"internal\":%s,\"tested\":%s}",
	     quoted(name, a, sizeof(a)), quoted(driver, b, sizeof(b)), type, priority,
	     flags & 1 ? "true" : "false", flags & 2 ? "true" : "false",
	     flags & 4 ? "true" : "false");
}

uint64_t SERVICE(kiln_test_begin)(const char *name)
{
	struct test *test = current_test();
	unsigned long flags;

	format(test->driver, sizeof(test->driver), "%s", name);
	test->reached = false;
	flags = lock_irq(&lock);
	test->next = tests;
	test->prev = &tests;
	if (tests)
		tests->prev = &test->next;
	tests = test;
	unlock_irq(&lock, flags);
	return thread_us();
}

void SERVICE(kiln_test_end)(const char *name, const char *alg, int result, uint64_t start)
{
	char a[256], b[256];
	struct test *test = current_test();
	unsigned long flags;

	tell("{\"event\":\"test\",\"driver\":\"%s\",\"alg\":\"%s\",\"result\":%d,\"us\":%lu,"
	     "\"reached\":%s}",
	     quoted(name, a, sizeof(a)), quoted(alg, b, sizeof(b)), result,
	     (unsigned long)(thread_us() - start),
	     test->reached ? "true" : "false");
	test->driver[0] = 0;
	flags = lock_irq(&lock);
	*test->prev = test->next;
	if (test->next)
		test->next->prev = test->prev;
	unlock_irq(&lock, flags);
	/* Report the algorithm now, because a better driver may replace and remove it. */
	kiln_glue_algorithms(name, tell_algorithm);
}

void SERVICE(kiln_test_reached)(const char *name)
{
	struct test *test = current_test();

	if (same(test->driver, name))
		test->reached = true;
}

void SERVICE(kiln_tell_suite)(const char *name, unsigned int cases)
{
	char a[256];

	tell("{\"event\":\"suite\",\"name\":\"%s\",\"cases\":%u}", quoted(name, a, sizeof(a)), cases);
}

/* Returns 0 to run the test; otherwise sets @skipped and returns the result to use instead. */
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
