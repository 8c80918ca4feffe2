/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * CMAC of several messages at a time: the second part of the template in cmac_simd.h.
 *
 * Limits on Zen 5 with AVX-512, AES-256: two AES instructions per cycle, so 56 cycles for one block
 * in each of 32 lanes, or 0.109 cycles per byte. Merging four blocks into a vector takes four loads
 * and three merges. The 32 loads for eight vectors, at two per cycle, overlap with the rounds. The
 * stores that limit CBC encryption are not needed.
 */
#include <kiln/string.h>

#include "../simd/cbc_lanes.h"
#include "../lanes.h"
#include "../partial.h"

struct lanes {
	u8 chain[LANES][AES_BLOCK_SIZE] __aligned(64);
	u8 last[LANES][AES_BLOCK_SIZE] __aligned(64);
	u8 part[AES_BLOCK_SIZE];
	const struct cmac_key *key;
	const struct kiln_message *m;
	struct runs r;
};

CBC_LANES(mac_lanes, EACH_8, CBC_DROP)

/* Begins the run of the last block. The last @n bytes of the message are at @rest. */
static __always_inline void begin_end(struct lanes *l, u32 i, const u8 *rest, size_t n)
{
	store1(l->last[i], last_block(l->key, rest, n));
	begin_run(&l->r, i, STAGE_END, l->last[i], 1);
}

/*
 * Begins a run of all remaining blocks except the last. If only the last block remains, begins the
 * run of that block.
 */
static __always_inline void begin_text(struct lanes *l, u32 i)
{
	const size_t len = l->r.len[i], blocks = len ? (len - 1) / AES_BLOCK_SIZE : 0;

	if (blocks)
		begin_blocks(&l->r, i, STAGE_TEXT, blocks, AES_BLOCK_SIZE);
	else
		begin_end(l, i, l->r.text[i], len);
}

static inline void begin_message(void *lanes, u32 i, const void *state, size_t n)
{
	const struct cmac_state *const s = state;
	struct lanes *const l = lanes;
	u64 kept = s->kept;

	store1(l->chain[i], load1(s->acc));
	take_message(&l->r, i, &l->m[n]);
	if (!kept) {
		begin_text(l, i);
		return;
	}
	memcpy(l->part, s->buffer, kept);
	fill_block(l->part, &kept, AES_BLOCK_SIZE, &l->r.text[i], &l->r.len[i]);
	if (!l->r.len[i]) {
		begin_end(l, i, l->part, kept);
		return;
	}
	store1(l->last[i], load1(l->part));
	begin_run(&l->r, i, STAGE_TEXT, l->last[i], 1);
}

static inline void next_run(void *lanes, u32 i)
{
	struct lanes *const l = lanes;

	if (l->r.stage[i] == STAGE_TEXT) {
		begin_text(l, i);
		return;
	}
	store1(l->r.out[i], load1(l->chain[i]));
	l->r.stage[i] = STAGE_IDLE;
}

static inline void run_blocks(void *lanes, size_t blocks)
{
	struct lanes *const l = lanes;

	mac_lanes(&l->key->aes, l->chain, l->r.src, NULL, blocks * AES_BLOCK_SIZE);
}

void CMAC(finish_many)(const void *ctx, const void *state, const struct kiln_message *m,
		       size_t count)
{
	static const struct lane_ops ops = { begin_message, next_run, run_blocks,
					     AES_BLOCK_SIZE };
	struct lanes l;

	assert_fpu_section();
	l.key = ctx;
	l.m = m;
	memset(l.chain, 0, sizeof(l.chain));
	process_messages(&ops, &l, &l.r, state, count);
	wipe_words(l.chain, sizeof(l.chain));
	wipe_words(l.last, sizeof(l.last));
	wipe_words(l.part, sizeof(l.part));
	v_end();
}
