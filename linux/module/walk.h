/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Finds contiguous pieces of a request's scatterlists. Pages need not be mapped, because 64-bit
 * machines have no high memory.
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

/* Returns the address of the @len bytes at offset @behind, or NULL if they are not contiguous. */
u8 *kiln_piece(struct scatterlist *sg, u32 behind, u32 len);

/*
 * Returns the address of the byte at offset @behind. Reduces *@len to the number of contiguous
 * bytes from there on, at most a page.
 */
u8 *kiln_piece_up_to(struct scatterlist *sg, u32 behind, u32 *len);

/* Like kiln_piece(), but if the bytes are not contiguous, copies them to @room. */
const u8 *kiln_piece_or_copy(struct scatterlist *sg, u32 behind, u32 len, u8 *room);

/*
 * A walk over text in steps of whole blocks. A remainder of less than two blocks is a single step,
 * because ciphertext stealing needs the last two blocks together. A step that crosses the boundary
 * between two entries is copied.
 */
struct kiln_walk {
	const u8 *src;
	u8 *dst;
	u32 nbytes;	/* number of bytes in this step; 0 at the end */

	u32 total;	/* number of bytes left, including this step */
	u32 block, most;
	struct kiln_place in, out;
	bool copied;
	u8 buffer[2 * KILN_PIECE] __aligned(16);
};

/*
 * Starts at offset @behind of both lists. @len bytes are processed in steps of at most @most bytes.
 */
void kiln_walk_first(struct kiln_walk *walk, struct scatterlist *src, struct scatterlist *dst,
		     u32 behind, u32 len, u32 block, u32 most);

/* Stores this step's result and starts the next one. */
void kiln_walk_next(struct kiln_walk *walk);

#endif
