// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Transforms a message into another one of the same length:
 *
 *	void SUBJECT_FUNCTION(uint8_t *dst, const uint8_t *src, size_t len);
 */
#include "harness.h"

extern void SUBJECT_FUNCTION(uint8_t *dst, const uint8_t *src, size_t len);

static void cell_run(uint8_t *dst, const uint8_t *src, size_t len, const uint8_t *iv, uint8_t *tag)
{
	(void)iv;
	(void)tag;
	SUBJECT_FUNCTION(dst, src, len);
}

const struct subject *cell_subject(void)
{
	static const struct subject s = { .writes = 1, .run = cell_run };

	return &s;
}
