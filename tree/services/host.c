// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The host process: sets up memory and the CPU, runs the tree's initcalls in order,
 * and tells what came of it, one JSON object a line on standard output:
 *
 *	{"event":"initcall","address":A,"result":R}	of those that failed
 *	{"event":"test","driver":D,"alg":N,"result":R,"us":T,"reached":B}
 *	{"event":"log","text":T}		what the tree printed
 *	{"event":"warn","address":A,"file":F,"line":N}
 *	{"event":"alg",...}			one for each algorithm registered
 *	{"event":"fault","what":W,"address":A,"driver":D}	and it ends
 *	{"event":"done","initcalls":N}		and it ends
 *
 * Arguments: the seed, then drivers whose tests are not to be run.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "service.h"

#define STACK_SIZE (64ul << 20)
#define EXIT_FAULT 70

extern uint64_t random_seed;
extern int __kiln_initcalls[], __kiln_initcalls_end[];
extern char __start___bug_table[] __attribute__((weak));
extern char __stop___bug_table[] __attribute__((weak));

static char **skipped;

static void send_line(const char *line, size_t n)
{
	while (n) {
		const ssize_t sent = write(STDOUT_FILENO, line, n);

		if (sent <= 0)
			_exit(EXIT_FAULT);
		line += sent;
		n -= (size_t)sent;
	}
}

void tell(const char *format, ...)
{
	char line[2048];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	send_line(line, (size_t)n);
}

/* Text as the inside of a JSON string; ASCII. */
static const char *quoted(const char *text, char *to, size_t size)
{
	char *p = to;

	for (; *text && p + 7 < to + size; text++) {
		const unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\') {
			*p++ = '\\';
			*p++ = (char)c;
		} else if (c < ' ' || c > '~') {
			p += snprintf(p, 7, "\\u%04x", c);
		} else {
			*p++ = (char)c;
		}
	}
	*p = 0;
	return to;
}

void tell_text(const char *event, const char *text)
{
	char safe[1536];

	tell("{\"event\":\"%s\",\"text\":\"%s\"}", event, quoted(text, safe, sizeof(safe)));
}

static _Noreturn void fault(const char *what, unsigned long address)
{
	char safe[256], name[256];

	tell("{\"event\":\"fault\",\"what\":\"%s\",\"address\":%lu,\"driver\":\"%s\"}",
	     quoted(what, safe, sizeof(safe)), address, quoted(current_test()->driver, name, sizeof(name)));
	_exit(EXIT_FAULT);
}

void give_up(const char *why)
{
	fault(why, (unsigned long)__builtin_return_address(0));
}

void refused(const char *name)
{
	char what[128];

	snprintf(what, sizeof(what), "no such service: %s", name);
	fault(what, (unsigned long)__builtin_return_address(0));
}

/* UD2 is how the tree warns: told and stepped over. All else ends the host. */
static void on_signal(int number, siginfo_t *info, void *context)
{
	ucontext_t *c = context;
	const unsigned long ip = (unsigned long)c->uc_mcontext.gregs[REG_RIP];
	const char *file = NULL;
	unsigned int line = 0;
	char safe[256], what[128];

	if (number == SIGILL) {
		const int kind = kiln_glue_bug(ip, __start___bug_table, __stop___bug_table,
					       &file, &line);

		if (kind == 1) {
			tell("{\"event\":\"warn\",\"address\":%lu,\"file\":\"%s\",\"line\":%u}",
			     ip, quoted(file ? file : "", safe, sizeof(safe)), line);
			c->uc_mcontext.gregs[REG_RIP] += 2;
			return;
		}
		if (kind == 2) {
			snprintf(what, sizeof(what), "BUG at %s:%u", file ? file : "?", line);
			fault(what, ip);
		}
	}
	snprintf(what, sizeof(what), "%s at %p", strsignal(number), info->si_addr);
	fault(what, ip);
}

static void catch_signals(void)
{
	static const int numbers[] = { SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP, SIGABRT };
	static char stack[1 << 17];
	const stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_sigaction = on_signal,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK };
	size_t i;

	sigaltstack(&alternate, NULL);
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
}

uint64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

uint64_t SERVICE(kiln_test_begin)(const char *name)
{
	struct test *test = current_test();

	snprintf(test->driver, sizeof(test->driver), "%s", name);
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

	if (!strcmp(test->driver, name))
		test->reached = true;
}

bool SERVICE(kiln_test_skipped)(const char *name)
{
	char **s;

	for (s = skipped; *s; s++)
		if (!strcmp(*s, name))
			return true;
	return false;
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

/* On a stack of its own: the tree's threads nest on it. */
static void run(void)
{
	unsigned long count = 0;
	int *p;

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
	kiln_glue_test_internal();
	kiln_glue_algorithms(report);
	tell("{\"event\":\"done\",\"initcalls\":%lu}", count);
	_exit(0);
}

int main(int argc, char **argv)
{
	const struct rlimit no_core = { 0, 0 };
	static ucontext_t there, here;
	void *stack;

	skipped = argv + (argc > 1 ? 2 : 1);
	if (argc > 1)
		random_seed = strtoull(argv[1], NULL, 10);
	setrlimit(RLIMIT_CORE, &no_core);
	catch_signals();
	patch_init();
	memory_init();
	percpu_init(kiln_glue_setup());

	stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (stack == MAP_FAILED)
		give_up("no memory for the stack");
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = STACK_SIZE;
	makecontext(&there, run, 0);
	swapcontext(&here, &there);
	return 0;
}
