/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A request's pieces of memory, which can all be addressed: there is no high memory on
 * 64-bit machines, so that nothing has to be mapped.
 *
 * walk.c APIs:
 *	kiln_piece, kiln_piece_up_to, kiln_piece_or_copy
 *	kiln_walk_first, kiln_walk_next
 */
#ifndef KILN_WALK_H
#define KILN_WALK_H

#include <linux/scatterlist.h>

#include "alg.h"

/* A place in a list. */
struct kiln_place {
	struct scatterlist *sg;
	u32 offset;
};

/* Where @len bytes behind the first @behind are, if they are in one piece; else NULL. */
u8 *kiln_piece(struct scatterlist *sg, u32 behind, u32 len);

/* Where the byte behind the first @behind is, and how many of @len are there, a page at most. */
u8 *kiln_piece_up_to(struct scatterlist *sg, u32 behind, u32 *len);

/* The same as kiln_piece(), or @room with a copy of them. */
const u8 *kiln_piece_or_copy(struct scatterlist *sg, u32 behind, u32 len, u8 *room);

/*
 * Text in steps: of whole blocks but the last, and that one of what is left once less than
 * two blocks are, which stolen ciphertext needs. What lies across a seam is copied.
 */
struct kiln_walk {
	const u8 *src;
	u8 *dst;
	u32 nbytes;	/* of this step; 0 when all is done */

	u32 total;	/* bytes that are left, these among them */
	u32 block;
	struct kiln_place in, out;
	bool copied;
	u8 buffer[2 * KILN_PIECE] __aligned(16);
};

/* @len bytes behind the first @behind of both lists. */
void kiln_walk_first(struct kiln_walk *walk, struct scatterlist *src, struct scatterlist *dst,
		     u32 behind, u32 len, u32 block);

/* The step's result is written: on to the next one. */
void kiln_walk_next(struct kiln_walk *walk);

#endif
