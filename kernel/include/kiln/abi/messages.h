/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Messages that a timed loop processes in turn: their addresses and lengths. This header uses plain
 * C types only, so that objects of hosted trees (tree/) can include it together with their own
 * headers.
 *
 * Message i is at src + i * src_stride, its result is written to dst + i * dst_stride, and its IV
 * is at iv + i * iv_stride. After the last message the loop continues with the first, until it has
 * made @calls calls. Fields that do not apply to the algorithm are not read.
 *
 * In memory, a message consists of the prefix (associated data), the text, and, when decrypting,
 * the tag. A result consists of room for the prefix, which is not written, the text, and, when
 * encrypting, the tag. The result of a hash is the digest only.
 */
#ifndef KILN_ABI_MESSAGES_H
#define KILN_ABI_MESSAGES_H

struct kiln_messages {
	const unsigned char *src;
	unsigned char *dst;
	const unsigned char *iv;
	/*
	 * Space for copies of the IVs, count * iv_stride bytes, since functions modify the IV. All
	 * IVs are copied together, long before they are read. A copy made just before a call would
	 * delay the call: store forwarding fails if a load is wider than the earlier stores.
	 */
	unsigned char *iv_room;
	unsigned long src_stride, dst_stride, iv_stride;
	unsigned long len, prefix, tag;
	unsigned long count;
	unsigned long calls;
	_Bool decrypt;
};

/* Return the size in bytes of a message, and of a result that is not a digest. */
static inline unsigned long kiln_message_size(const struct kiln_messages *m)
{
	return m->prefix + m->len + (m->decrypt ? m->tag : 0);
}

static inline unsigned long kiln_result_size(const struct kiln_messages *m)
{
	return m->prefix + m->len + (m->decrypt ? 0 : m->tag);
}

#endif
