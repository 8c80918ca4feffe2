/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Contiguous pieces of a request's scatterlists. 64-bit machines have no high memory, so pages need
 * not be mapped.
 *
 * walk.c APIs:
 *	kiln_piece, kiln_piece_up_to, kiln_piece_or_copy
 *	kiln_walk_first, kiln_walk_next
 */
#ifndef KILN_WALK_H
#define KILN_WALK_H

#include <linux/scatterlist.h>

#include "alg.h"

/* A position in a scatterlist. */
struct kiln_place {
	struct scatterlist *sg;
	u32 offset;
};

/* Returns the address of the @len bytes at offset @behind if they are contiguous, else NULL. */
u8 *kiln_piece(struct scatterlist *sg, u32 behind, u32 len);

/*
 * Returns the address of the byte at offset @behind. Reduces *@len to the number of contiguous
 * bytes there, at most a page.
 */
u8 *kiln_piece_up_to(struct scatterlist *sg, u32 behind, u32 *len);

/* Like kiln_piece(), but copies the bytes to @room if they are not contiguous. */
const u8 *kiln_piece_or_copy(struct scatterlist *sg, u32 behind, u32 len, u8 *room);

/*
 * Processes text in steps of whole blocks. Ciphertext stealing needs the last two blocks together,
 * so a remainder of less than two blocks is a single step. Steps that cross the border between two
 * entries are copied.
 */
struct kiln_walk {
	const u8 *src;
	u8 *dst;
	u32 nbytes;	/* bytes of this step; 0 at the end */

	u32 total;	/* bytes left, including this step */
	u32 block, most;
	struct kiln_place in, out;
	bool copied;
	u8 buffer[2 * KILN_PIECE] __aligned(16);
};

/* Starts at offset @behind of both lists, to process @len bytes in steps of at most @most bytes. */
void kiln_walk_first(struct kiln_walk *walk, struct scatterlist *src, struct scatterlist *dst,
		     u32 behind, u32 len, u32 block, u32 most);

/* Stores the result of this step and starts the next one. */
void kiln_walk_next(struct kiln_walk *walk);

#endif
