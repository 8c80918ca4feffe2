/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Passes messages of different lengths through lanes, which process one block of each message per
 * step. Hashes, MACs and CCM share this code for processing several messages at a time. The
 * including file defines LANES first.
 *
 * A run is a sequence of blocks that are contiguous in memory: CCM's first blocks, whole blocks of
 * text, the padded end, or the outer hash of HMAC. Each run has at least one block. A pass takes as
 * many steps as the shortest run has blocks. Then the lanes whose runs have ended continue with the
 * next run of their message, or with a new message. Lanes without a message repeat the blocks of
 * another lane.
 */
#ifndef KILN_CIPHERS_LANES_H
#define KILN_CIPHERS_LANES_H

#include <kiln/cipher.h>
#include <kiln/types.h>

enum stage { STAGE_IDLE, STAGE_AAD, STAGE_TEXT, STAGE_END, STAGE_OUTER };

struct runs {
	const u8 *src[LANES];	/* the next block of the run */
	size_t blocks[LANES];	/* blocks that remain of the run */
	const u8 *text[LANES];	/* what follows this run in the associated data or text */
	size_t len[LANES];
	u8 *out[LANES];
	enum stage stage[LANES];
};

/*
 * begin_message() begins the first run of message @n in lane @i, continuing from @state. next_run()
 * begins the next run of the lane's message. After the last run, it writes the result and sets the
 * stage to STAGE_IDLE. run_blocks() processes @blocks blocks in every lane. @lanes is the structure
 * that contains the struct runs.
 *
 * @state is a parameter instead of a member of @lanes. Otherwise, compilers would have to assume
 * that it overlaps the lanes and would copy it word by word, and a vector load of these words would
 * have to wait until all of them have reached the cache.
 */
struct lane_ops {
	void (*begin_message)(void *lanes, u32 i, const void *state, size_t n);
	void (*next_run)(void *lanes, u32 i);
	void (*run_blocks)(void *lanes, size_t blocks);
	size_t block;		/* bytes per block */
};

static __always_inline void begin_run(struct runs *r, u32 i, enum stage stage, const u8 *src,
				      size_t blocks)
{
	r->stage[i] = stage;
	r->src[i] = src;
	r->blocks[i] = blocks;
}

/* Assigns message @m to a lane. */
static __always_inline void take_message(struct runs *r, u32 i, const struct kiln_message *m)
{
	r->text[i] = m->src;
	r->len[i] = m->len;
	r->out[i] = m->dst;
}

/* Begins a run of the next @blocks blocks (@block bytes each) of the lane's message. */
static __always_inline void begin_blocks(struct runs *r, u32 i, enum stage stage, size_t blocks,
					 const size_t block)
{
	const u8 *const text = r->text[i];

	r->text[i] += blocks * block;
	r->len[i] -= blocks * block;
	begin_run(r, i, stage, text, blocks);
}

static __always_inline void process_messages(const struct lane_ops *ops, void *lanes,
					     struct runs *r, const void *state, size_t count)
{
	size_t next = 0, least;
	u32 i, busy = 0;

	for (i = 0; i < LANES; i++)
		begin_run(r, i, STAGE_IDLE, NULL, 0);
	for (;;) {
		least = 0;
		for (i = 0; i < LANES; i++) {
			if (!r->blocks[i] && r->stage[i] != STAGE_IDLE)
				ops->next_run(lanes, i);
			if (r->stage[i] == STAGE_IDLE && next < count)
				ops->begin_message(lanes, i, state, next++);
			if (r->stage[i] == STAGE_IDLE)
				continue;
			busy = i;
			if (!least || r->blocks[i] < least)
				least = r->blocks[i];
		}
		if (!least)
			return;
		/*
		 * The barriers keep compilers from vectorising these loops with masked moves, which
		 * are not known to take the same time for all masks.
		 */
		for (i = 0; i < LANES; i++) {
			if (r->stage[i] == STAGE_IDLE)
				r->src[i] = r->src[busy];
			barrier();
		}
		ops->run_blocks(lanes, least);
		for (i = 0; i < LANES; i++) {
			barrier();
			if (r->stage[i] == STAGE_IDLE)
				continue;
			r->src[i] += least * ops->block;
			r->blocks[i] -= least;
		}
	}
}

#endif
