/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Messages to be processed in turn by a timed loop: their addresses and lengths. It uses plain C
 * types only, so that hosted trees' objects (tree/) can include this together with their own
 * headers.
 *
 * Message i is at src + i * src_stride, its result goes to dst + i * dst_stride, and its IV is
 * at iv + i * iv_stride. After the last message the loop continues with the first, until it has
 * made @calls calls. Fields that do not apply to the algorithm are not read.
 *
 * In memory a message is the prefix (associated data), the text, and when decrypting the tag.
 * A result is room for the prefix, which is not written, the text, and when encrypting the tag.
 * The result of a hash is the digest only.
 */
#ifndef KILN_ABI_MESSAGES_H
#define KILN_ABI_MESSAGES_H

struct kiln_messages {
	const unsigned char *src;
	unsigned char *dst;
	const unsigned char *iv;
	/*
	 * Room of count * iv_stride bytes for copies of the IVs, since functions modify their IV.
	 * All are copied at once, long before they are read. A copy made just before each call
	 * would delay it: store forwarding fails if a load is wider than the stores before it.
	 */
	unsigned char *iv_room;
	unsigned long src_stride, dst_stride, iv_stride;
	unsigned long len, prefix, tag;
	unsigned long count;
	unsigned long calls;
	_Bool decrypt;
};

/* Bytes of a whole message, and of a whole result unless it is a digest. */
static inline unsigned long kiln_message_size(const struct kiln_messages *m)
{
	return m->prefix + m->len + (m->decrypt ? m->tag : 0);
}

static inline unsigned long kiln_result_size(const struct kiln_messages *m)
{
	return m->prefix + m->len + (m->decrypt ? 0 : m->tag);
}

#endif
