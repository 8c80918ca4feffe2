// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The event protocol with the parent process: one JSON object per line, on a separate file
 * descriptor.
 *
 *	{"event":"alternatives","applied":N,"left":N}	first event
 *	{"event":"initcall","address":A,"result":R}	a failed initcall
 *	{"event":"test","driver":D,"alg":N,"result":R,"us":T,"reached":B}
 *	{"event":"suite","name":N,"cases":C}	a KUnit suite of the tree
 *	{"event":"log","text":T}		a message that the tree printed
 *	{"event":"warn","address":A,"file":F,"line":N}
 *	{"event":"alg",...}			a registered algorithm
 *	{"event":"violation","oracle":O,"driver":D,"rule":R,"what":W,"case":C,"trace":[A,...]}
 *	{"event":"subject",...}			a driver that the oracles can examine
 *	{"event":"unreached","name":N,"why":W}	an algorithm that the oracles cannot examine
 *	{"event":"fault","what":W,"address":A,"driver":D,"case":C,"trace":[A,...]}	crash; the last event
 *	{"event":"done","initcalls":N}		success; the last event
 *
 * Each line is written by one system call, which preserves the vector registers. Events can
 * therefore be sent from any context, including FPU sections and softirqs.
 */
#include "service.h"

#define SYS_WRITE 1
#define SYS_EXIT_GROUP 231
#define EINTR 4
#define EXIT_FAULT 70

long syscall3(long number, long a, long b, long c)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return result;
}

static _Noreturn void leave(void)
{
	for (;;)
		syscall3(SYS_EXIT_GROUP, EXIT_FAULT, 0, 0);
}

static void send_line(const char *line, size_t n)
{
	while (n) {
		const long sent = syscall3(SYS_WRITE, boot.events, (long)line, (long)n);

		if (sent == -EINTR)
			continue;
		if (sent <= 0)
			leave();
		line += sent;
		n -= (size_t)sent;
	}
}

void tell(const char *text, ...)
{
	char line[2048];
	va_list args;
	int n;

	va_start(args, text);
	n = format_args(line, sizeof(line) - 1, text, args);
	va_end(args);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	send_line(line, (size_t)n);
}

/* Escapes text so that it can be used inside a JSON string. The result is plain ASCII. */
const char *quoted(const char *text, char *to, size_t size)
{
	char *p = to;

	for (; *text && p + 7 < to + size; text++) {
		const unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\') {
			*p++ = '\\';
			*p++ = (char)c;
		} else if (c < ' ' || c > '~') {
			p += format(p, 7, "\\u%04x", c);
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

static _Noreturn void fault(const char *what, unsigned long address, const char *driver)
{
	char safe[256], name[256], what_case[400], trace[24 * 22];
	unsigned long at[24];
	const unsigned int n = kiln_image_trace(__builtin_frame_address(0), at, 24);
	unsigned int i;
	int len = 0;

	trace[0] = 0;
	for (i = 0; i < n; i++)
		len += format(trace + len, sizeof(trace) - len, i ? ",%lu" : "%lu", at[i]);
	tell("{\"event\":\"fault\",\"what\":\"%s\",\"address\":%lu,\"driver\":\"%s\","
	     "\"case\":\"%s\",\"trace\":[%s]}",
	     quoted(what, safe, sizeof(safe)), address, quoted(driver, name, sizeof(name)),
	     quoted(kiln_image_case(), what_case, sizeof(what_case)), trace);
	leave();
}

void give_up(const char *why)
{
	fault(why, (unsigned long)__builtin_return_address(0), kiln_image_test());
}

void give_up_in(const char *why, const char *driver)
{
	fault(why, (unsigned long)__builtin_return_address(0), driver);
}

void refused(const char *name)
{
	char what[128];

	format(what, sizeof(what), "no such service: %s", name);
	fault(what, (unsigned long)__builtin_return_address(0), kiln_image_test());
}
