/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The first program of a kernel that Kiln boots. It has no other input than the file
 * /orders of its initramfs and no other output than lines on the console.
 *
 * console.c APIs:
 *	say, relay_new, relay_read, relay_end, log_open, log_relay
 * order.c APIs:
 *	order_obey
 */
#ifndef KILN_INIT_H
#define KILN_INIT_H

#include <stdbool.h>
#include <stddef.h>

/* Every line begins so; a kernel's own messages do not. */
#define PREFIX "kiln:"

/*
 * One line `kiln:KIND TEXT` in one write, so that no other writer comes into it.
 * Bytes that would end a line or drive a terminal are written as \xNN.
 */
void say(const char *kind, const char *text, size_t len);
void say_string(const char *kind, const char *text);
void say_numbers(const char *kind, long a, const char *word, long b);

/* Bytes of a pipe become lines of one kind. */
struct relay {
	const char *kind;
	int fd;
	size_t used;
	char line[4000];
};

/* Takes what is there. False at the end, or on an error. */
bool relay_read(struct relay *r);
/* What has no newline at its end is a line, too. */
void relay_end(struct relay *r);

/* The kernel's log from now on, as lines `kiln:log LEVEL SECONDS TEXT`; -1 without one. */
int log_open(void);
void log_relay(int fd);

/* Obeys one order, line `number` of the file. True if it went well. */
bool order_obey(unsigned number, char *line, int log);

#endif
