/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Hashes of several messages at a time: the template for SHA-1, SHA-2 and SM3 in every width.
 *
 * Within a message, each block waits for the previous block, and each round for the previous round.
 * Processing several messages, one per lane, makes use of this waiting time.
 *
 * The including file defines:
 *
 *	MD, MD_NAME(name)	the struct md; the full name of an entry point
 *	word_t		u32 or u64
 *	LANES		the number of lanes
 *	AT(lane, word)	the index of a lane's state word in an array of 8 * LANES words
 *	run_lanes(h, src, blocks)	for each lane i, hashes the @blocks blocks at src[i] into its
 *				state in the array @h
 *	v_end()		VZEROUPPER, before a function returns
 */
#include <kiln/fpu_assert.h>

#include "lanes.h"
#include "merkle_simd.h"

#define BLOCK (16 * sizeof(word_t))

struct lanes {
	word_t h[8 * LANES] __aligned(64);
	u8 last[LANES][2 * BLOCK] __aligned(64);
	u8 part[BLOCK] __aligned(64);	/* the start of a block, or HMAC's inner digest */
	u64 bytes[LANES];		/* total bytes hashed, including those in the first state */
	const void *outer;		/* for HMAC: the state after the outer key block */
	const struct kiln_message *m;
	struct runs r;
};

static __always_inline void set_state(struct lanes *l, u32 i, const word_t *h)
{
	u32 w;

	for (w = 0; w < 8; w++)
		l->h[AT(i, w)] = h[w];
}

static __always_inline void get_digest(struct lanes *l, u32 i, u8 *out)
{
	u64 h[8];
	u32 w;

	for (w = 0; w < 8; w++)
		((word_t *)h)[w] = l->h[AT(i, w)];
	md_put_digest(&MD, h, out);
	wipe_words(h, 8 * sizeof(word_t));
}

/* Begins the run of padded blocks that ends a hash. The last @n bytes to be hashed are at @rest. */
static __always_inline void begin_end(struct lanes *l, u32 i, enum stage stage, const u8 *rest,
				      size_t n)
{
	begin_run(&l->r, i, stage, l->last[i], md_pad(&MD, l->last[i], rest, n, l->bytes[i]));
}

static __always_inline void begin_text(struct lanes *l, u32 i)
{
	const size_t blocks = l->r.len[i] / BLOCK;

	if (blocks)
		begin_blocks(&l->r, i, STAGE_TEXT, blocks, BLOCK);
	else
		begin_end(l, i, STAGE_END, l->r.text[i], l->r.len[i]);
}

static inline void begin_message(void *lanes, u32 i, const void *state, size_t n)
{
	const struct md_state *const s = state;
	struct lanes *const l = lanes;
	u64 kept = s->bytes % BLOCK;

	set_state(l, i, (const word_t *)s->h);
	take_message(&l->r, i, &l->m[n]);
	l->bytes[i] = s->bytes + l->r.len[i];
	if (!kept) {
		begin_text(l, i);
		return;
	}
	memcpy(l->part, s->buffer, kept);
	if (!fill_block(l->part, &kept, BLOCK, &l->r.text[i], &l->r.len[i])) {
		begin_end(l, i, STAGE_END, l->part, kept);
		return;
	}
	memcpy(l->last[i], l->part, BLOCK);
	begin_run(&l->r, i, STAGE_TEXT, l->last[i], 1);
}

static inline void next_run(void *lanes, u32 i)
{
	struct lanes *const l = lanes;

	if (l->r.stage[i] == STAGE_TEXT) {
		begin_text(l, i);
	} else if (l->r.stage[i] == STAGE_END && l->outer) {
		get_digest(l, i, l->part);
		set_state(l, i, l->outer);
		l->bytes[i] = BLOCK + MD.digest;
		begin_end(l, i, STAGE_OUTER, l->part, MD.digest);
	} else {
		get_digest(l, i, l->r.out[i]);
		l->r.stage[i] = STAGE_IDLE;
	}
}

static inline void run_blocks(void *lanes, size_t blocks)
{
	struct lanes *const l = lanes;

	run_lanes(l->h, l->r.src, blocks);
}

void MD_NAME(many)(const struct md_state *s, const void *outer, const struct kiln_message *m,
		   size_t count)
{
	static const struct lane_ops ops = { begin_message, next_run, run_blocks, BLOCK };
	struct lanes l;

	assert_fpu_section();
	l.outer = outer;
	l.m = m;
	memset(l.h, 0, sizeof(l.h));
	process_messages(&ops, &l, &l.r, s, count);
	/* States of HMAC are as secret as the key. */
	wipe_words(l.h, sizeof(l.h));
	wipe_words(l.last, sizeof(l.last));
	wipe_words(l.part, sizeof(l.part));
	v_end();
}
