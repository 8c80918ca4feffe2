/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Generates traffic for one driver from several threads concurrently.
 *
 * sessions.c sets keys repeatedly. data.c encrypts messages, and compares each result with the
 * result of Linux's generic code.
 */
#ifndef KILN_LINUX_VIRTIO_TRAFFIC_H
#define KILN_LINUX_VIRTIO_TRAFFIC_H

#include <linux/types.h>

/* A kind of traffic that the worker threads can generate. */
struct traffic {
	const char *kind;
	/* Number of session operations or messages per call to `work`. */
	unsigned int operations;
	void *(*open)(const char *driver, unsigned int len);
	/* Returns 0 on success, -EBADMSG if the result contains wrong bytes, or another error. */
	int (*work)(void *of);
	void (*close)(void *of);
};

extern const struct traffic cipher_sessions;
extern const struct traffic akcipher_sessions;
extern const struct traffic cipher_data;

#endif
