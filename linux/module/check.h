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
 * and then with each other. The messages have lengths around all block and piece sizes. They are
 * encrypted and decrypted, both whole and in pieces, and forged tags must be rejected. Returns NULL
 * if all results are right, otherwise a description of the first fault. Must be called in process
 * context.
 */
const char *__init kiln_check(const struct kiln_alg *alg);

/*
 * Compares the digest from a transform of a registered driver with the digest from the transform's
 * clone. Returns NULL if they are equal, or if they are not compared because the driver has no key
 * or this kernel cannot clone its transforms.
 */
const char *__init kiln_check_clone(const struct kiln_alg *alg);

/*
 * Returns how many bytes a section can process within @us microseconds. Several runs are timed, and
 * the shortest time counts. The result is a multiple of KILN_PIECE, from KILN_SECTION_LEAST to
 * KILN_SECTION_BYTES.
 */
u32 __init kiln_bytes_within(const struct kiln_alg *alg, u32 us);

#endif
