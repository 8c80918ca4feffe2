/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The interface between the harness and its subject. Each calling convention (block.c, digest.c,
 * ...) is a file that defines cell_subject(). The SUBJECT_* macros are defined on the compiler's
 * command line.
 */
#ifndef KILN_CELL_HARNESS_H
#define KILN_CELL_HARNESS_H

#include <stddef.h>
#include <stdint.h>

enum { LARGEST_KEY = 2048, LARGEST_IV = 32, LARGEST_TAG = 64 };

struct subject {
	size_t key, iv, tag;	/* bytes; tag is 0 if the subject makes no tag */
	int writes;		/* whether the subject writes @dst */
	/* Returns 0 if the key is accepted. The pointer is NULL for algorithms without a key. */
	int (*setkey)(const uint8_t *key, size_t len);
	void (*run)(uint8_t *dst, const uint8_t *src, size_t len, const uint8_t *iv, uint8_t *tag);
};

const struct subject *cell_subject(void);

#endif
