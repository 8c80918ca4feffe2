/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * CBC encryption of many messages under one key: the template that modes_simd.h includes.
 *
 * Each lane (../simd/cbc_lanes.h) processes a different message. One pass runs as many blocks as
 * remain in the shortest of these messages; then the lanes whose messages have ended take new
 * messages.
 */
#ifndef KILN_AES_CBC_MANY_H
#define KILN_AES_CBC_MANY_H

#include "../simd/cbc_lanes.h"

struct lanes {
	const u8 *src[LANES];
	u8 *dst[LANES];
	u8 chain[LANES][AES_BLOCK_SIZE] __aligned(64);
	size_t message[LANES];
	size_t blocks[LANES];	/* blocks that remain of each lane's message */
};

CBC_LANES(many_1, EACH_1, CBC_STORE)
CBC_LANES(many_2, EACH_2, CBC_STORE)
CBC_LANES(many_4, EACH_4, CBC_STORE)
CBC_LANES(many_8, EACH_8, CBC_STORE)

/* Assigns message @i, which is not empty, to lane @to. */
static void lane_begin(struct lanes *l, u32 to, const struct kiln_message *m, size_t i)
{
	l->src[to] = m[i].src;
	l->dst[to] = m[i].dst;
	l->message[to] = i;
	l->blocks[to] = m[i].len / AES_BLOCK_SIZE;
	store1(l->chain[to], load_halves(m[i].iv));
}

static void lane_copy(struct lanes *l, u32 to, u32 from)
{
	l->src[to] = l->src[from];
	l->dst[to] = l->dst[from];
	l->message[to] = l->message[from];
	l->blocks[to] = l->blocks[from];
	store1(l->chain[to], load1(l->chain[from]));
}

/* Processes @blocks blocks in the first @live lanes. Unused lanes of a vector repeat lane 0. */
static void lanes_run(const struct aes_key *key, struct lanes *l, u32 live, size_t blocks)
{
	const size_t bytes = blocks * AES_BLOCK_SIZE;
	u32 width = VBLOCKS, i;

	while (width < live)
		width *= 2;
	for (i = live; i < width; i++)
		lane_copy(l, i, 0);
	switch (width / VBLOCKS) {
	case 1:
		many_1(key, l->chain, l->src, l->dst, bytes);
		break;
	case 2:
		many_2(key, l->chain, l->src, l->dst, bytes);
		break;
	case 4:
		many_4(key, l->chain, l->src, l->dst, bytes);
		break;
	default:
		many_8(key, l->chain, l->src, l->dst, bytes);
	}
	for (i = 0; i < live; i++) {
		l->src[i] += bytes;
		l->dst[i] += bytes;
		l->blocks[i] -= blocks;
	}
}

void MODES(cbc_encrypt_many)(const void *ctx, const struct kiln_message *m, size_t count)
{
	struct lanes l;
	size_t next = 0, least;
	u32 live = 0, i;

	assert_fpu_section();
	for (;;) {
		for (; live < LANES && next < count; next++)
			if (m[next].len)
				lane_begin(&l, live++, m, next);
		if (!live)
			break;
		least = l.blocks[0];
		for (i = 1; i < live; i++)
			if (l.blocks[i] < least)
				least = l.blocks[i];
		lanes_run(ctx, &l, live, least);
		for (i = live; i--; ) {
			if (l.blocks[i])
				continue;
			store1(m[l.message[i]].iv, load1(l.chain[i]));
			if (i != --live)
				lane_copy(&l, i, live);
		}
	}
	v_end();
}

#endif
