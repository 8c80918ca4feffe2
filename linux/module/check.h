/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tests an implementation before it is registered, and determines how long its sections may be.
 *
 * check.c APIs:
 *	kiln_check, kiln_check_clone
 *	kiln_bytes_within
 */
#ifndef KILN_CHECK_H
#define KILN_CHECK_H

#include <linux/init.h>
#include <linux/types.h>

#include "alg.h"

/*
 * Compares the implementation and its scalar code with the known answers in the cipher's directory,
 * and then with each other. The messages have lengths around all block and piece sizes, are
 * processed whole and in pieces, in both directions, and with forged tags. Returns NULL if all
 * results are right, otherwise a description of the first fault. Must be called in process context.
 */
const char *__init kiln_check(const struct kiln_alg *alg);

/*
 * Compares the digest of a registered driver with that of a clone. Returns NULL if they are equal, or
 * if the driver has no key or this kernel does not clone such transforms.
 */
const char *__init kiln_check_clone(const struct kiln_alg *alg);

/*
 * Returns how many bytes a section can process within @us microseconds. Several runs are timed, and
 * the shortest time counts. The result is a multiple of KILN_PIECE, from KILN_SECTION_LEAST to
 * KILN_SECTION_BYTES.
 */
u32 __init kiln_bytes_within(const struct kiln_alg *alg, u32 us);

#endif
