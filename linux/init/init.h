/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The init program of the kernels that Kiln boots. Its only input is the file /orders in its
 * initramfs, and its only output is lines on the console.
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

/*
 * Prefix of every line that init writes. It distinguishes these lines from the kernel's messages.
 */
#define PREFIX "kiln:"

/*
 * Writes the line `kiln:KIND TEXT` in a single write, so that other writers cannot split it. Bytes
 * that would end the line or control a terminal are written as \xNN.
 */
void say(const char *kind, const char *text, size_t len);
void say_string(const char *kind, const char *text);
void say_numbers(const char *kind, long a, const char *word, long b);

/* A pipe whose bytes are split into lines of one kind. */
struct relay {
	const char *kind;
	int fd;
	size_t used;
	char line[4000];
};

/* Reads the available bytes. Returns false at the end of the pipe or on an error. */
bool relay_read(struct relay *r);
/* Writes the last line if it did not end with a newline. */
void relay_end(struct relay *r);

/*
 * Opens the kernel's log. log_relay() writes its records as lines `kiln:log LEVEL SECONDS TEXT`.
 * Returns -1 if the kernel has no log.
 */
int log_open(void);
void log_relay(int fd);

/* Executes the command in line `number` of the file. Returns true on success. */
bool order_obey(unsigned number, char *line, int log);

#endif
