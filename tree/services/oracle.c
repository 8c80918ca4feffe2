// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Sends the oracles' reports (tree/oracles/): the list of drivers, and the violations that the
 * oracles find.
 */
#include "service.h"

#define SYS_SCHED_YIELD 24
#define SYS_GETPID 39
#define SYS_PROCESS_VM_READV 310
#define DEEPEST 24

extern char __executable_start[], etext[];

struct oracle_case SERVICE(kiln_case);
static char oracle[32], subject[160];

unsigned int kiln_image_fault_trace(const void *stack, const void *frame, unsigned long *to,
				    unsigned int most);

struct iovec {
	const void *at;
	size_t len;
};

/*
 * Reads memory that may be unmapped. Uses a system call, which returns an error where a load would
 * crash the process.
 */
static bool peek(const void *from, void *to, size_t n)
{
	const struct iovec local = { to, n }, remote = { from, n };
	const long pid = syscall3(SYS_GETPID, 0, 0, 0);
	/*
	 * Declare these register variables after calling syscall3(), which may clobber the
	 * registers.
	 */
	register long flags __asm__("r9") = 0;
	register long count __asm__("r8") = 1;
	register const void *far __asm__("r10") = &remote;
	long result;

	/* The arguments are pid, local, 1, remote, 1, 0. The source @from is in the list remote. */
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_PROCESS_VM_READV), "D"(pid), "S"(&local), "d"(1l), "r"(far),
			   "r"(count), "r"(flags)
			 : "rcx", "r11", "memory");
	return result == (long)n;
}

/*
 * Collects return addresses inside the image. Follows the chain of frame pointers. Reads pieces of
 * the stack instead of single frames, because the guarded heap calls this for each allocation, and
 * most of the time is spent in system calls. A piece crosses the end of a page only if a frame does,
 * because the next page may be unmapped.
 */
unsigned int kiln_image_trace(const void *frame, unsigned long *to, unsigned int most)
{
	unsigned long piece[64], at = 0, size = 0;
	unsigned int n = 0;

	while (n < most && frame && !((unsigned long)frame & 7)) {
		const unsigned long *pair;

		if ((unsigned long)frame < at || (unsigned long)frame + 16 > at + size) {
			at = (unsigned long)frame;
			size = 4096 - (at & 4095);
			/* The two words of a frame may be in two pages. */
			if (size < 16)
				size = 16;
			if (size > sizeof(piece))
				size = sizeof(piece);
			if (!peek(frame, piece, size))
				break;
		}
		pair = &piece[((unsigned long)frame - at) / sizeof(*piece)];
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

	if (most && peek(stack, to, sizeof(*to)) && to[0] >= (unsigned long)__executable_start &&
	    to[0] < (unsigned long)etext)
		n = 1;
	return n + kiln_image_trace(frame, to + n, most - n);
}

/* Describes the current call in reports: returns the oracle's case, else the request, else "". */
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
