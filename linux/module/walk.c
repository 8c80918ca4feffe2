// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Splits the scatterlists of a request into contiguous pieces. */
#include <linux/bug.h>
#include <linux/minmax.h>
#include <linux/string.h>

#include "walk.h"

#ifdef CONFIG_HIGHMEM
#error "pieces of a request may have no address here"
#endif

static u8 *at(const struct kiln_place *place)
{
	return (u8 *)sg_virt(place->sg) + place->offset;
}

static u32 here(const struct kiln_place *place)
{
	return place->sg->length - place->offset;
}

/* Advances to the next entry that has unused bytes. Does nothing at the end of the list. */
static void skip_used(struct kiln_place *place)
{
	while (!here(place) && !sg_is_last(place->sg)) {
		place->offset = 0;
		place->sg = sg_next(place->sg);
	}
}

static void skip(struct kiln_place *place, u32 n)
{
	while (n) {
		u32 part;

		skip_used(place);
		part = min(n, here(place));
		/* If @part is 0, the list contains fewer bytes than the request specifies. */
		if (WARN_ON_ONCE(!part))
			return;
		place->offset += part;
		n -= part;
	}
}

static struct kiln_place place_behind(struct scatterlist *sg, u32 n)
{
	struct kiln_place place = { .sg = sg };

	skip(&place, n);
	return place;
}

/*
 * Copies @n bytes from the list to @buffer or, if @out is set, from @buffer to the list, and
 * advances the position by @n.
 */
static void copy(u8 *buffer, struct kiln_place *place, u32 n, bool out)
{
	while (n) {
		u32 part;

		skip_used(place);
		part = min(n, here(place));
		if (WARN_ON_ONCE(!part))
			return;
		if (out)
			memcpy(at(place), buffer, part);
		else
			memcpy(buffer, at(place), part);
		buffer += part;
		place->offset += part;
		n -= part;
	}
}

u8 *kiln_piece_up_to(struct scatterlist *sg, u32 behind, u32 *len)
{
	struct kiln_place place = place_behind(sg, behind);

	skip_used(&place);
	*len = min3(*len, here(&place), (u32)KILN_SECTION_BYTES);
	return at(&place);
}

u8 *kiln_piece(struct scatterlist *sg, u32 behind, u32 len)
{
	struct kiln_place place;

	if (!len)
		return ZERO_SIZE_PTR;
	place = place_behind(sg, behind);
	skip_used(&place);
	return here(&place) < len ? NULL : at(&place);
}

const u8 *kiln_piece_or_copy(struct scatterlist *sg, u32 behind, u32 len, u8 *room)
{
	const u8 *piece = kiln_piece(sg, behind, len);
	struct kiln_place place;

	if (piece)
		return piece;
	place = place_behind(sg, behind);
	copy(room, &place, len, false);
	return room;
}

static void prepare(struct kiln_walk *walk)
{
	const u32 least = walk->total < 2 * walk->block ? walk->total : walk->block;
	u32 n;

	walk->nbytes = 0;
	if (!walk->total)
		return;
	skip_used(&walk->in);
	skip_used(&walk->out);
	n = min3(here(&walk->in), here(&walk->out), min(walk->total, walk->most));
	if (n < walk->total) {
		n = round_down(n, walk->block);
		/* Leave at least one whole block for the last step. */
		if (n && walk->total - n < walk->block)
			n -= walk->block;
	}
	walk->copied = n < least;
	if (walk->copied) {
		struct kiln_place in = walk->in;

		copy(walk->buffer, &in, least, false);
		walk->src = walk->dst = walk->buffer;
		walk->nbytes = least;
	} else {
		walk->src = at(&walk->in);
		walk->dst = at(&walk->out);
		walk->nbytes = n;
	}
}

void kiln_walk_first(struct kiln_walk *walk, struct scatterlist *src, struct scatterlist *dst,
		     u32 behind, u32 len, u32 block, u32 most)
{
	walk->total = len;
	walk->block = block;
	walk->most = most;
	if (!len) {
		walk->nbytes = 0;
		return;
	}
	walk->in = place_behind(src, behind);
	walk->out = place_behind(dst, behind);
	prepare(walk);
}

void kiln_walk_next(struct kiln_walk *walk)
{
	const u32 n = walk->nbytes;

	if (walk->copied) {
		copy(walk->buffer, &walk->out, n, true);
		memzero_explicit(walk->buffer, sizeof(walk->buffer));
		skip(&walk->in, n);
	} else {
		walk->in.offset += n;
		walk->out.offset += n;
	}
	walk->total -= n;
	prepare(walk);
}
