// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Writes lines to the console. While commands run, the console's log level is lowered, and init,
 * rather than the kernel, writes the kernel's log to the console. With only one writer, no line is
 * split.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "init.h"

static bool plain(unsigned char c)
{
	return c == '\t' || (c >= 0x20 && c != 0x7f);
}

void say(const char *kind, const char *text, size_t len)
{
	static const char hex[] = "0123456789abcdef";
	/* Large enough for the longest relayed line, even if all of its bytes are escaped. */
	static char out[64 + 4 * 4096];
	size_t used, done;

	used = (size_t)snprintf(out, 64, PREFIX "%s ", kind);
	for (size_t i = 0; i < len && used + 5 < sizeof(out); i++) {
		const unsigned char c = (unsigned char)text[i];

		if (plain(c)) {
			out[used++] = (char)c;
			continue;
		}
		out[used++] = '\\';
		out[used++] = 'x';
		out[used++] = hex[c >> 4];
		out[used++] = hex[c & 15];
	}
	out[used++] = '\n';
	for (done = 0; done < used;) {
		const ssize_t n = write(STDOUT_FILENO, out + done, used - done);

		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno != EINTR && errno != EAGAIN)
			return;	/* the console has failed */
	}
}

void say_string(const char *kind, const char *text)
{
	say(kind, text, strlen(text));
}

void say_numbers(const char *kind, long a, const char *word, long b)
{
	char text[64];

	snprintf(text, sizeof(text), "%ld %s %ld", a, word, b);
	say_string(kind, text);
}

bool relay_read(struct relay *r)
{
	char *end;
	const ssize_t n = read(r->fd, r->line + r->used, sizeof(r->line) - r->used);

	if (n <= 0)
		return n < 0 && (errno == EINTR || errno == EAGAIN);
	r->used += (size_t)n;
	while ((end = memchr(r->line, '\n', r->used))) {
		const size_t len = (size_t)(end - r->line);

		say(r->kind, r->line, len);
		r->used -= len + 1;
		memmove(r->line, end + 1, r->used);
	}
	if (r->used == sizeof(r->line)) {
		/* The text is too long for one line, so split it. */
		say(r->kind, r->line, r->used);
		r->used = 0;
	}
	return true;
}

void relay_end(struct relay *r)
{
	if (r->used)
		say(r->kind, r->line, r->used);
	r->used = 0;
}

int log_open(void)
{
	const int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	/* Skip boot messages, because the kernel has already written them to the console. */
	if (fd >= 0)
		lseek(fd, 0, SEEK_END);
	return fd;
}

/*
 * Writes one record of /dev/kmsg to the console. A record has the format
 * `level,sequence,microseconds,flags[,…];text`, followed by a newline and optional lines.
 */
static void log_line(char *record)
{
	char *text = strchr(record, ';'), *end, *after;
	char line[4096 + 64];
	unsigned long level, us;

	if (!text)
		return;
	*text++ = '\0';
	text[strcspn(text, "\n")] = '\0';
	level = strtoul(record, &end, 10) & 7;
	if (*end != ',')
		return;
	strtoul(end + 1, &end, 10);
	if (*end != ',')
		return;
	us = strtoul(end + 1, &after, 10);
	snprintf(line, sizeof(line), "%lu %lu.%06lu %s", level, us / 1000000, us % 1000000,
		 text);
	say_string("log", line);
}

void log_relay(int fd)
{
	char record[8192];

	while (fd >= 0) {
		const ssize_t n = read(fd, record, sizeof(record) - 1);

		if (n > 0) {
			record[n] = '\0';
			log_line(record);
		} else if (n < 0 && errno == EPIPE) {
			say_string("lost", "messages of the kernel, overwritten before they were read");
		} else if (n == 0 || errno != EINTR) {
			return;
		}
	}
}
