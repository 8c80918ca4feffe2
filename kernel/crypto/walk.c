// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Iterates over a request's scatterlists. */
#include <kiln/abi/crypto.h>
#include <kiln/crypto.h>
#include <kiln/string.h>

static u32 smaller(u64 a, u32 b)
{
	return a < b ? a : b;
}

/* Advances to the next entry that has bytes left, if there is one. */
static void skip_used(struct scatterlist **sg, u32 *offset)
{
	while (*offset == (*sg)->length && !(*sg)->last) {
		*offset = 0;
		*sg = sg_next(*sg);
	}
}

/* Skips the next @n bytes. The list must have at least @n more bytes. */
static void skip(struct scatterlist **sg, u32 *offset, u64 n)
{
	while (n) {
		u32 here;

		skip_used(sg, offset);
		here = smaller(n, (*sg)->length - *offset);
		*offset += here;
		n -= here;
	}
}

bool scatterwalk_holds(struct scatterlist *sg, u64 n)
{
	for (;; sg = sg_next(sg)) {
		if (sg->length >= n)
			return true;
		if (sg->last)
			return false;
		n -= sg->length;
	}
}

/*
 * Copies @n bytes from the list to @buffer or, if @out is set, from @buffer to the list, and
 * advances past them.
 */
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

void scatterwalk_copy(u8 *buffer, struct scatterlist *sg, u64 behind, u32 n, bool out)
{
	u32 offset = 0;

	skip(&sg, &offset, behind);
	copy(buffer, &sg, &offset, n, out);
}

u32 scatterwalk_next(struct scatterlist **sg, u32 *offset, u64 left, u8 **at)
{
	u32 n;

	skip_used(sg, offset);
	n = smaller(left, (*sg)->length - *offset);
	*at = (*sg)->addr + *offset;
	*offset += n;
	return n;
}

u8 *scatterwalk_piece(struct scatterlist *sg, u64 behind, u32 n)
{
	u32 offset = 0;

	skip(&sg, &offset, behind);
	skip_used(&sg, &offset);
	return sg->length - offset < n ? NULL : sg->addr + offset;
}

struct scatterlist *scatterwalk_ffwd(struct scatterlist room[2], struct scatterlist *sg,
				     u64 behind)
{
	u32 offset = 0;

	skip(&sg, &offset, behind);
	skip_used(&sg, &offset);
	if (!offset)
		return sg;
	sg_init_one(&room[0], sg->addr + offset, sg->length - offset);
	if (!sg->last) {
		room[0].last = false;
		room[1].addr = (u8 *)sg_next(sg);
		room[1].length = 0;
		room[1].last = false;
		room[1].chain = true;
	}
	return room;
}

/*
 * Returns the minimum length of the next step: one block, or all remaining bytes if fewer than two
 * blocks remain, because ciphertext stealing needs them together.
 */
static u32 least(const struct skcipher_walk *walk)
{
	return walk->total < 2 * walk->block ? walk->total : walk->block;
}

void skcipher_walk_next(struct skcipher_walk *walk, u32 step)
{
	const u32 min = least(walk);
	u32 n;

	skip_used(&walk->in, &walk->in_offset);
	skip_used(&walk->out, &walk->out_offset);
	n = smaller(walk->in->length - walk->in_offset,
		    walk->out->length - walk->out_offset);
	n = smaller(smaller(n, step), walk->total);
	if (n < walk->total) {
		n -= n % walk->block;
		/* Leave at least one block for the last step. */
		if (n && walk->total - n < walk->block)
			n -= walk->block;
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

int skcipher_walk_text(struct skcipher_walk *walk, const struct crypto_request *req, u32 len,
		       u32 block)
{
	const u64 all = (u64)req->assoclen + len;

	if (!scatterwalk_holds(req->src, all) || !scatterwalk_holds(req->dst, all))
		return -EINVAL;
	walk->total = len;
	walk->block = block;
	walk->in = req->src;
	walk->out = req->dst;
	walk->in_offset = walk->out_offset = 0;
	skip(&walk->in, &walk->in_offset, req->assoclen);
	skip(&walk->out, &walk->out_offset, req->assoclen);
	return 0;
}

void skcipher_walk_done(struct skcipher_walk *walk)
{
	const u32 n = walk->nbytes;

	if (walk->bounced) {
		copy(walk->buffer, &walk->out, &walk->out_offset, n, true);
		skip(&walk->in, &walk->in_offset, n);
		memzero_explicit(walk->buffer, sizeof(walk->buffer));
	} else {
		walk->in_offset += n;
		walk->out_offset += n;
	}
	walk->total -= n;
}

void scatterwalk_copy_pieces(struct scatterlist *dst, struct scatterlist *src, u64 n)
{
	u32 offset = 0, step;
	u64 done;
	u8 *at;

	for (done = 0; done < n; done += step) {
		step = scatterwalk_next(&src, &offset, n - done, &at);
		scatterwalk_copy(at, dst, done, step, true);
	}
}
