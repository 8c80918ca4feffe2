// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A cipher that processes whole messages, with a 32-byte key and a 16-byte IV:
 *
 *	void SUBJECT_FUNCTION(const uint8_t *key, uint8_t *dst, const uint8_t *src, size_t len,
 *			      const uint8_t *iv);
 */
#include <string.h>

#include "harness.h"

extern void SUBJECT_FUNCTION(const uint8_t *key, uint8_t *dst, const uint8_t *src, size_t len,
			     const uint8_t *iv);

static uint8_t cell_key[32];

static int cell_setkey(const uint8_t *key, size_t len)
{
	memcpy(cell_key, key, len);
	return 0;
}

static void cell_run(uint8_t *dst, const uint8_t *src, size_t len, const uint8_t *iv, uint8_t *tag)
{
	(void)tag;
	SUBJECT_FUNCTION(cell_key, dst, src, len, iv);
}

const struct subject *cell_subject(void)
{
	static const struct subject s = {
		.key = 32, .iv = 16, .writes = 1, .setkey = cell_setkey, .run = cell_run,
	};

	return &s;
}
