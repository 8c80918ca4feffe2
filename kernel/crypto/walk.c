// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A request's pieces of memory, step by step.
 */
#include <kiln/crypto.h>
#include <kiln/kiln.h>
#include <kiln/string.h>

static u32 smaller(u32 a, u32 b)
{
	return a < b ? a : b;
}

/* On to a piece that has something, if one is left. */
static void skip_used(struct scatterlist **sg, u32 *offset)
{
	while (*offset == (*sg)->length && !(*sg)->last) {
		*offset = 0;
		(*sg)++;
	}
}

static bool long_enough(const struct scatterlist *sg, u32 n)
{
	for (;; sg++) {
		if (sg->length >= n)
			return true;
		if (sg->last)
			return false;
		n -= sg->length;
	}
}

/* Move @n bytes between the pieces and @buffer, and go on behind them. */
static void copy(u8 *buffer, struct scatterlist **sg, u32 *offset, u32 n, bool out)
{
	while (n) {
		u32 here;

		skip_used(sg, offset);
		here = smaller(n, (*sg)->length - *offset);
		if (out)
			memcpy((*sg)->addr + *offset, buffer, here);
		else
			memcpy(buffer, (*sg)->addr + *offset, here);
		buffer += here;
		*offset += here;
		n -= here;
	}
}

/*
 * What the next step has at least: a block, or with stealing at the end of the message
 * all that is left once less than two whole blocks are.
 */
static u32 least(const struct skcipher_walk *walk)
{
	return walk->total < 2 * WALK_BLOCK ? walk->total : WALK_BLOCK;
}

static void next(struct skcipher_walk *walk)
{
	const u32 min = least(walk);
	u32 n;

	if (!walk->total) {
		walk->nbytes = 0;
		return;
	}
	skip_used(&walk->in, &walk->in_offset);
	skip_used(&walk->out, &walk->out_offset);
	n = smaller(walk->in->length - walk->in_offset,
		    walk->out->length - walk->out_offset);
	n = smaller(smaller(n, WALK_PAGE), walk->total);
	if (n < walk->total) {
		n -= n % WALK_BLOCK;
		/* Never leave less than a block behind. */
		if (n && walk->total - n < WALK_BLOCK)
			n -= WALK_BLOCK;
	}
	walk->bounced = n < min;
	if (walk->bounced) {
		struct scatterlist *sg = walk->in;
		u32 offset = walk->in_offset;

		copy(walk->buffer, &sg, &offset, min, false);
		walk->src = walk->dst = walk->buffer;
		walk->nbytes = min;
	} else {
		walk->src = walk->in->addr + walk->in_offset;
		walk->dst = walk->out->addr + walk->out_offset;
		walk->nbytes = n;
	}
}

int skcipher_walk_first(struct skcipher_walk *walk, const struct skcipher_request *req)
{
	if (!long_enough(req->src, req->cryptlen) || !long_enough(req->dst, req->cryptlen))
		return -EINVAL;
	walk->total = req->cryptlen;
	walk->in = req->src;
	walk->out = req->dst;
	walk->in_offset = walk->out_offset = 0;
	next(walk);
	return 0;
}

int skcipher_walk_done(struct skcipher_walk *walk)
{
	const u32 n = walk->nbytes;

	if (walk->bounced) {
		u8 unused[WALK_BOUNCE];

		copy(walk->buffer, &walk->out, &walk->out_offset, n, true);
		copy(unused, &walk->in, &walk->in_offset, n, false);
		memzero_explicit(unused, sizeof(unused));
		memzero_explicit(walk->buffer, sizeof(walk->buffer));
	} else {
		walk->in_offset += n;
		walk->out_offset += n;
	}
	walk->total -= n;
	next(walk);
	return 0;
}
