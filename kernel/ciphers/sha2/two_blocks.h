/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Processes messages two blocks per pass. The including file defines what ../merkle_entry.h needs,
 * except for run() and wipe(), and also:
 *
 *	first_block(st, s, data, stride)	runs the rounds of the block at @data, and computes
 *						the schedules of that block and of the second
 *						block, which is at @data + @stride
 *	other_block(st, s, lane)	runs the rounds of the second block
 */
static __always_inline void run(word_t *st, struct schedule *s, const u8 *data, size_t blocks,
				const u8 *last, size_t more)
{
	size_t i;

	for (i = 0; i + LANES <= blocks + more; i += LANES) {
		const u8 *const one = md_block_at(&MD, data, blocks, last, i);
		const u8 *const two = md_block_at(&MD, data, blocks, last, i + 1);

		first_block(st, s, one, (size_t)(two - one));
		other_block(st, s, 1);
	}
	/* If the number of blocks is odd, both lanes process the last one. */
	if (i < blocks + more)
		first_block(st, s, md_block_at(&MD, data, blocks, last, i), 0);
}

/* Wipes the schedule and the state. In an HMAC, the states are as secret as the key. */
static __always_inline void wipe(struct schedule *s, word_t st[8])
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(s->kw); i++)
		*(vec_t *)s->kw[i] = _mm256_setzero_si256();
	for (i = 0; i < 8 * sizeof(*st) / sizeof(vec_t); i++)
		_mm256_storeu_si256((__m256i *)st + i, _mm256_setzero_si256());
	__asm__ volatile("" : : "r"(s), "r"(st) : "memory");
}

#include "../merkle_entry.h"
