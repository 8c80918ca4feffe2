/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tests an implementation before it is registered, and determines how long its sections may be.
 *
 * check.c APIs:
 *	kiln_check
 *	kiln_bytes_within
 */
#ifndef KILN_CHECK_H
#define KILN_CHECK_H

#include <linux/init.h>
#include <linux/types.h>

#include "alg.h"

/*
 * Compares the implementation and its scalar code with the known answers of the cipher's folder,
 * and then with each other: lengths around all block and piece sizes, whole and in pieces, both
 * directions, forged tags. Returns NULL if all are right, else a description of the first fault.
 * Call in process context.
 */
const char *__init kiln_check(const struct kiln_alg *alg);

/*
 * Returns how many bytes a section can process within @us microseconds, based on the shortest of
 * several measured times. The result is a multiple of KILN_PIECE, from KILN_SECTION_LEAST to
 * KILN_SECTION_BYTES.
 */
u32 __init kiln_bytes_within(const struct kiln_alg *alg, u32 us);

#endif
