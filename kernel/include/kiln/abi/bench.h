/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The border of bench/: calls of functions and requests that are timed. All functions here are
 * called through kiln_gate(), with a pointer to the structure that each follows.
 */
#ifndef KILN_ABI_BENCH_H
#define KILN_ABI_BENCH_H

#include <kiln/abi/messages.h>
#include <kiln/types.h>

struct kiln_impl;
struct scatterlist;

/* FPU sections around the calls of a function that uses vector registers. */
enum kiln_sections {
	KILN_NO_SECTION,		/* scalar functions always run without one */
	KILN_ONE_SECTION,		/* around all calls */
	KILN_SECTION_EACH,		/* one for each call */
	KILN_SECTION_EACH_UNTIMED,	/* the same without the section timer */
};

/*
 * bench/calls.c: calls of one implementation's function for whole messages.
 *
 * @aad of message i is at aad + i * aad_stride and its tag at tag + i * tag_stride; usually they
 * lie in the prefix and behind the text of the messages or results. With @chained, which skciphers
 * have, each IV is the beginning of the last result instead. With @many the function is
 * encrypt_many() for up to KILN_QUEUE messages at a time. Both are called in one section.
 */
struct kiln_calls {
	const struct kiln_impl *impl;
	const void *ctx;
	struct kiln_messages m;
	const u8 *aad;
	u8 *tag;
	size_t aadlen, aad_stride, tag_stride;
	bool chained, many;
	u32 sections;		/* enum kiln_sections */
};

/* What a network device's poll function passes on at most. */
enum { KILN_QUEUE = 64 };

/* How many were refused for a wrong tag; all if the text is longer than the implementation allows. */
KILN_EXPORT u64 kiln_calls_run(void *calls);

/*
 * bench/pieces.c: one message in pieces, each in a section of its own. The first @aad_pieces of
 * them are associated data. If @other is not NULL, the two implementations take turns on one
 * state. The tag is written, whether the message is encrypted or decrypted.
 */
struct kiln_pieces {
	const struct kiln_impl *impl, *other;
	const void *ctx;
	u8 *dst;
	const u8 *src, *iv, *aad;
	u8 *tag;
	size_t len, aadlen, tagsize;
	bool decrypt;
	const u32 *piece;
	u32 pieces, aad_pieces;
};

/* 0, or -EINVAL if the text is too long. */
KILN_EXPORT u64 kiln_pieces_run(void *pieces);

/* A whole request, or one part of what the simd helper does besides calling the cipher. */
enum kiln_request_part {
	KILN_REQUEST,
	KILN_REQUEST_CHECKS,	/* is SIMD usable, is anything queued */
	KILN_REQUEST_COPY,	/* copies the request to the sub-request */
	KILN_REQUEST_CALL,	/* an indirect call and return */
	KILN_REQUEST_SETUP,	/* only what the user does */
};

/*
 * bench/requests.c: requests to a transform of any kind. The loop waits for each answer before it
 * makes the next. Each message is in one piece, and its request is filled in anew; with
 * @from, one request over these pieces is filled in once and made m.calls times. A digest
 * goes to m.dst in either case.
 */
struct kiln_requests {
	void *tfm;
	struct kiln_messages m;
	struct scatterlist *from, *to;
	u32 part;		/* enum kiln_request_part */
	int err;		/* out: the first that is not 0 */
	u64 later;		/* out: how many were not answered at once */
};

KILN_EXPORT u64 kiln_requests_run(void *requests);

#endif
