/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The host's interface to bench/: timed function calls and timed requests. Functions with a void
 * pointer are called through kiln_gate() and take the structure that is declared before them.
 */
#ifndef KILN_ABI_BENCH_H
#define KILN_ABI_BENCH_H

#include <kiln/abi/messages.h>
#include <kiln/histogram.h>
#include <kiln/types.h>

struct kiln_impl;
struct scatterlist;
struct task;

/* How FPU sections are placed around calls of a function that uses vector registers. */
enum kiln_sections {
	KILN_NO_SECTION,		/* scalar functions always run without one */
	KILN_ONE_SECTION,		/* around all calls */
	KILN_SECTION_EACH,		/* one for each call */
	KILN_SECTION_EACH_UNTIMED,	/* the same without the section timer */
};

/*
 * bench/calls.c: calls of one implementation's function for whole messages.
 *
 * The associated data of message i are at aad + i * aad_stride, its tag at tag + i * tag_stride.
 * Usually the associated data are the prefix of the message, and the tag follows the text. With
 * @chained (skciphers only), the IV of each message after the first is the beginning of the
 * previous result. With @many, encrypt_many() encrypts up to KILN_QUEUE messages per call. With
 * either, @sections is KILN_ONE_SECTION.
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

/*
 * Messages per call of encrypt_many(): the NAPI budget, the most packets that one poll may
 * process.
 */
enum { KILN_QUEUE = 64 };

/*
 * Returns how many messages were rejected for a wrong tag, or m.calls if the text is longer than
 * the implementation allows.
 */
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
	KILN_REQUEST_SETUP,	/* only the caller's part: filling in the request */
};

/*
 * bench/requests.c: requests to a transform of any kind. The loop waits until a request is complete
 * before it submits the next. If @from is NULL, each message is contiguous, and its request is
 * filled in anew. Otherwise one request, from @from to @to, is filled in once and submitted m.calls
 * times. Digests are written to m.dst in either case.
 */
struct kiln_requests {
	void *tfm;
	struct kiln_messages m;
	struct scatterlist *from, *to;
	u32 part;		/* enum kiln_request_part */
	int err;		/* out: the first error, or 0 */
	u64 later;		/* out: requests that did not complete synchronously */
};

KILN_EXPORT u64 kiln_requests_run(void *requests);

/* crypto/cut.c: methods that cut long messages into sections. */
enum kiln_way {
	KILN_UNBOUNDED,		/* one section, whatever the length */
	KILN_PAGE,		/* 4 KiB each */
	KILN_FIXED,		/* the limits posted in 2022: crypto/posted.def */
	KILN_CLASS,		/* 16, 256 or 512 KiB */
	KILN_CALIBRATED,	/* as many bytes as fit the target according to the calibration */
	KILN_CLOCKED,		/* TSC readings between calls decide where a section ends */
	KILN_ON_DEMAND,		/* until a softirq is pending or a reschedule is wanted */
	KILN_NR_WAYS
};

/* The name of a method; NULL after the last. */
KILN_EXPORT const char *kiln_cut_way(u32 way);
/* Applies to the whole process from now on; @target in TSC ticks. */
KILN_EXPORT void kiln_cut_set(u32 way, u64 target);
KILN_EXPORT u32 kiln_cut_get(u64 *target);
/* For tests: sections, or steps between two checks, have @bytes; 0 restores the normal sizes. */
KILN_EXPORT void kiln_cut_force(u32 bytes);

struct kiln_budget {
	u32 most[2], start[2];	/* struct fpu_budget; encryption, decryption */
	u64 rate[2];
	u64 miss_rate;
	u32 granule;		/* budgets are multiples of this */
	u32 posted;		/* bytes of KILN_FIXED; 0: no limit was posted */
	u32 min_bytes;
	bool fastest;		/* implementation of its algorithm, as measured */
};

KILN_EXPORT void kiln_budget_get(const struct kiln_impl *impl, struct kiln_budget *budget);
/* Bytes that fit in a section of @ticks; 0 if less than one granule. */
KILN_EXPORT u32 kiln_budget_bytes(const struct kiln_impl *impl, bool decrypt, u64 ticks);

/* bench/calibrate.c. The host provides this much memory, aligned to 64. */
enum { KILN_CALIBRATION_BYTES = 512 * 1024 };

struct kiln_calibration {
	u8 *memory;		/* KILN_CALIBRATION_BYTES */
	/*
	 * For tests: if @rates is not NULL, nothing is run and all times are simulated.
	 * Implementation i takes rates[i] ticks per 65536 bytes, run n takes stalls[n % nr_stalls]
	 * ticks longer, and the chain of multiplications takes @chain ticks.
	 */
	const u64 *rates, *stalls;
	u32 nr_stalls;
	u64 chain;
	u64 ticks;		/* out: duration of the calibration */
	u32 runs;		/* out */
	u64 enough;		/* internal: ticks of a long run */
};

/* Measures all usable implementations. */
KILN_EXPORT u64 kiln_calibrate(void *calibration);
/*
 * Calibrates again if the clock speed has changed since the last calibration, or if there was none.
 * Returns whether it did.
 */
KILN_EXPORT u64 kiln_calibrate_again(void *calibration);

/*
 * bench/budget.c: alternates between three workloads: requests cut by the method under test,
 * requests in one section whatever the length, and sections of pure arithmetic. Each interrupt
 * raises a softirq and wakes a kthread.
 */
enum { KILN_PART_JUDGED, KILN_PART_UNBOUNDED, KILN_PART_NULL, KILN_NR_PARTS };

struct kiln_budget_part {
	struct histogram section, softirq, wake;
	u64 ops, sections, interrupted, stolen, stalls;
	u64 long_sections, long_witnessed;
	u64 *op_ticks;		/* durations of the first max_ops */
};

struct kiln_budget_run {
	struct kiln_requests *requests;	/* m.calls: 1 */
	struct kiln_budget_part *part;	/* KILN_NR_PARTS */
	u64 null_chain;		/* multiplications in a section of arithmetic */
	u64 long_ticks;		/* sections that take at least this are long */
	u32 max_ops;		/* room in op_ticks */
	u64 ticks;		/* minimum duration */
	u64 min_ops;		/* of each part */
	bool cold;		/* flush the data from the caches before each operation */
	bool quiet;		/* only the first part */
	int err;
	/* internal */
	struct task *sleeper;
	u32 now;
	u32 raised;
	u64 woken;
	bool stop, stopped;
};

KILN_EXPORT u64 kiln_budget_run(void *run);
/* Ticks that @n dependent multiplications take, the shortest of several runs. */
KILN_EXPORT u64 kiln_budget_chain(u64 n);

#endif
