// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Records the tree's self-tests. glue.c reports the beginning and the end of each test. */
#include "service.h"

void kiln_image_testing(const char *name);

/* List of the running tests. The most recently started test comes first. */
static struct test *tests;
static volatile unsigned char lock;

/*
 * Returns the driver to name in a crash report. This is the first of the following that exists, or
 * "" if none does:
 *
 * - the driver that an oracle is examining;
 * - the driver whose test this thread is running, or for whose test it is serving a request;
 * - the driver of the most recently started test, which may be waiting for this thread.
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
 * Exchanges @note with this thread's note. Called before and after each request; the second call
 * restores the previous note.
 */
void SERVICE(kiln_note_request)(struct request_note *note)
{
	struct request_note *own = &current_test()->note;
	const struct request_note before = *own;

	*own = *note;
	*note = before;
}

/*
 * Records which test made each queued request. Another thread, such as cryptd's, processes the
 * request. If that thread crashes, the crash is attributed to the test. New entries overwrite the
 * oldest.
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

/*
 * Records which queued request this thread is now processing. If @request is NULL, the thread is
 * not processing any.
 */
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

/*
 * Formats the request that this thread is making. Returns the length of the text, or 0 outside a
 * request.
 */
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

/* Sets the name of the driver or function that this thread is about to call. */
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
	/* Report the algorithm now, because a better driver may replace it later. */
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

/* Sets @skipped if the test must not run. The return value is then the test's result. */
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
