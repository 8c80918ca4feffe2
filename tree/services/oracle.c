// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Sends the oracles' reports (tree/oracles/): the list of drivers, and the violations that the
 * oracles find.
 */
#include "service.h"

#define SYS_RT_SIGPROCMASK 14
#define SYS_SCHED_YIELD 24
#define EINVAL 22
#define PAGE_SIZE 4096ul
#define DEEPEST 24

extern char __executable_start[], etext[];

struct oracle_case SERVICE(kiln_case);
static char oracle[32], subject[160];

unsigned int kiln_image_fault_trace(const void *stack, const void *frame, unsigned long *to,
				    unsigned int most);

/*
 * Returns whether a word can be read. A load from unmapped memory would crash the process, whereas
 * a system call returns an error. The system call used here reads the word as a set of signals, and
 * then fails because the operation is invalid.
 */
static bool is_readable(const void *at)
{
	/* Declare these register variables where no function call can clobber them. */
	register unsigned long size __asm__("r10") = 8;
	long result;

	/* The arguments are the operation, the new set, no old set, and the size of a set. */
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_RT_SIGPROCMASK), "D"(-1l), "S"(at), "d"(0l), "r"(size)
			 : "rcx", "r11", "memory");
	return result == -EINVAL;
}

/*
 * Collects return addresses inside the image by following the chain of frame pointers. The guarded
 * heap calls this function for each allocation. Most of the function's time is spent in system
 * calls, so each page is checked only once.
 */
unsigned int kiln_image_trace(const void *frame, unsigned long *to, unsigned int most)
{
	unsigned long checked = 0;
	unsigned int n = 0;

	while (n < most && frame && !((unsigned long)frame & 7)) {
		const unsigned long *pair = frame;

		/* The two words of a frame may be on different pages. */
		if ((unsigned long)pair / PAGE_SIZE != checked && !is_readable(pair))
			break;
		if ((unsigned long)(pair + 1) / PAGE_SIZE != (unsigned long)pair / PAGE_SIZE &&
		    !is_readable(pair + 1))
			break;
		checked = (unsigned long)(pair + 1) / PAGE_SIZE;
		if (pair[1] >= (unsigned long)__executable_start && pair[1] < (unsigned long)etext)
			to[n++] = pair[1];
		else if (n)
			break;
		/* The caller's frame must be at a higher address, and at most 64 KiB away. */
		if (pair[0] <= (unsigned long)frame || pair[0] - (unsigned long)frame > 1 << 16)
			break;
		frame = (const void *)pair[0];
	}
	return n;
}

/*
 * Collects return addresses of interrupted code. If the interrupted function has not set up a
 * frame, its return address is at the top of the stack.
 */
unsigned int kiln_image_fault_trace(const void *stack, const void *frame, unsigned long *to,
				    unsigned int most)
{
	unsigned int n = 0;

	if (most && is_readable(stack)) {
		to[0] = *(const unsigned long *)stack;
		n = to[0] >= (unsigned long)__executable_start && to[0] < (unsigned long)etext;
	}
	return n + kiln_image_trace(frame, to + n, most - n);
}

/*
 * Returns a description of the current call for use in reports. This is the case that an oracle is
 * examining or, outside the oracles, the request that this thread is making. If neither exists,
 * returns "".
 */
const char *kiln_image_case(void)
{
	static char text[320];
	const struct oracle_case *c = &SERVICE(kiln_case);
	int n;

	text[0] = 0;
	if (!c->op) {
		test_request(text, sizeof(text));
		return text;
	}
	n = format(text, sizeof(text), "%s", c->op);
	if (c->layout)
		n += format(text + n, sizeof(text) - n, " of %lu bytes", c->len);
	if (c->layout && c->aad)
		n += format(text + n, sizeof(text) - n, " with %lu of associated data", c->aad);
	if (c->layout)
		n += format(text + n, sizeof(text) - n, ", %s", c->layout);
	if (c->varied)
		format(text + n, sizeof(text) - n, ", %s %u", c->varied, c->number);
	return text;
}

const char *oracle_subject(void)
{
	return subject;
}

void SERVICE(kiln_subject_is)(const char *name, const char *driver)
{
	format(oracle, sizeof(oracle), "%s", name);
	format(subject, sizeof(subject), "%s", driver);
}

void violated_at(const char *rule, const char *what, const unsigned long *at, unsigned int n)
{
	char a[160], b[400], c[400], trace[DEEPEST * 22];
	unsigned int i;
	int len = 0;

	trace[0] = 0;
	for (i = 0; i < n; i++)
		len += format(trace + len, sizeof(trace) - len, i ? ",%lu" : "%lu", at[i]);
	tell("{\"event\":\"violation\",\"oracle\":\"%s\",\"driver\":\"%s\",\"rule\":\"%s\","
	     "\"what\":\"%s\",\"case\":\"%s\",\"trace\":[%s]}",
	     oracle, quoted(subject, a, sizeof(a)), rule, quoted(what, b, sizeof(b)),
	     quoted(kiln_image_case(), c, sizeof(c)), trace);
}

void SERVICE(kiln_violated)(const char *rule, const char *what, const void *frame)
{
	unsigned long at[DEEPEST];
	const unsigned int n = kiln_image_trace(frame ? frame : __builtin_frame_address(0), at, DEEPEST);

	violated_at(rule, what, at, n);
}

void SERVICE(kiln_violated_at)(const char *rule, const char *what, const unsigned long *at,
			       unsigned int n)
{
	violated_at(rule, what, at, n);
}

unsigned int SERVICE(kiln_trace)(const void *frame, unsigned long *to, unsigned int most)
{
	return kiln_image_trace(frame, to, most);
}

/* Pauses briefly, so that the host can run the thread of another CPU. */
void SERVICE(kiln_relax)(void)
{
	unsigned int i;

	for (i = 0; i < 50; i++)
		__asm__ volatile("pause");
	syscall3(SYS_SCHED_YIELD, 0, 0, 0);
}

void SERVICE(kiln_tell_subject)(const char *name, const char *alg, const char *driver,
				unsigned int type, bool is_async, bool internal)
{
	char a[256], b[256], c[256];

	tell("{\"event\":\"subject\",\"name\":\"%s\",\"alg\":\"%s\",\"driver\":\"%s\",\"kind\":%u,"
	     "\"async\":%s,\"internal\":%s}",
	     quoted(name, a, sizeof(a)), quoted(alg, b, sizeof(b)), quoted(driver, c, sizeof(c)),
	     type, is_async ? "true" : "false", internal ? "true" : "false");
}

void SERVICE(kiln_tell_unreached)(const char *name, const char *why)
{
	char a[256], b[256];

	tell("{\"event\":\"unreached\",\"name\":\"%s\",\"why\":\"%s\"}", quoted(name, a, sizeof(a)),
	     quoted(why, b, sizeof(b)));
}
