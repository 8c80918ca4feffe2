/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The host's interface to bench/: timed function calls and timed requests. Functions with a void
 * pointer argument are called through kiln_gate(); the argument points to the structure declared
 * before the function.
 */
#ifndef KILN_ABI_BENCH_H
#define KILN_ABI_BENCH_H

#include <kiln/abi/messages.h>
#include <kiln/histogram.h>
#include <kiln/types.h>

struct kiln_impl;
struct scatterlist;
struct task;

/* How FPU sections are placed around calls to a function that uses vector registers. */
enum kiln_sections {
	KILN_NO_SECTION,		/* scalar functions always run without a section */
	KILN_ONE_SECTION,		/* one section around all calls */
	KILN_SECTION_EACH,		/* one section per call */
	KILN_SECTION_EACH_UNTIMED,	/* one section per call, without the section timer */
};

/*
 * Parameters of bench/calls.c, which calls an implementation's function for whole messages.
 *
 * The associated data of message i is at aad + i * aad_stride, its tag at tag + i * tag_stride.
 * Usually the associated data is the message's prefix, and the tag follows the text. With @chained
 * (skciphers only), the IV of each message after the first is the beginning of the previous result.
 * With @many, encrypt_many(), seal_many(), open_many() or finish_many() processes up to KILN_QUEUE
 * messages per call. Both require @sections to be KILN_ONE_SECTION.
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
 * Messages per call with @many: the NAPI budget, which is the maximum number of packets that one
 * poll may process.
 */
enum { KILN_QUEUE = 64 };

/*
 * Returns how many messages were rejected because of a wrong tag, or m.calls if the text is longer
 * than the implementation allows.
 */
KILN_EXPORT u64 kiln_calls_run(void *calls);

/*
 * Parameters of a single timed call with cold caches. @memory has @lines cache lines, each starting
 * with the word 1; reading them replaces what the caches hold (bench/evict.c). @calls describes the
 * call; neither @chained nor @many may be set. The function sets the other members.
 */
struct kiln_cold {
	const struct kiln_calls *calls;
	const u64 *memory;
	u64 lines;
	u64 ticks;		/* of the call, in TSC ticks */
	u64 read;		/* sum of the words that were read */
	u64 executed;		/* lines of code that were executed */
};

/* Returns what kiln_calls_run() would return for one call. */
KILN_EXPORT u64 kiln_cold_run(void *cold);

/*
 * Parameters of bench/pieces.c, which processes one message in pieces, each in its own section. The
 * first @aad_pieces pieces are associated data. If @other is not NULL, the two implementations
 * alternate on the same state. The tag is written both when encrypting and when decrypting.
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

/* Returns 0, or -EINVAL if the text is too long. */
KILN_EXPORT u64 kiln_pieces_run(void *pieces);

/*
 * A whole request, or one of the steps that a request through the simd helper takes in addition to
 * the cipher.
 */
enum kiln_request_part {
	KILN_REQUEST,
	KILN_REQUEST_CHECKS,	/* check whether SIMD is usable and requests are queued */
	KILN_REQUEST_COPY,	/* copy the request to the sub-request */
	KILN_REQUEST_CALL,	/* only an indirect call and a return */
	KILN_REQUEST_SETUP,	/* the caller's part only: fill in the request */
};

/*
 * bench/requests.c: makes requests to a transform of any kind. The loop waits until a request is
 * complete before it submits the next. If @from is NULL, each message is contiguous and has its own
 * request. Otherwise one request, from @from to @to, is filled in once and submitted m.calls times.
 * Digests are written to m.dst in either case.
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

/* crypto/cut.c: strategies that divide long messages into sections. */
enum kiln_way {
	KILN_UNBOUNDED,		/* one section, whatever the length of the message */
	KILN_PAGE,		/* 4 KiB per section */
	KILN_FIXED,		/* limits posted in 2022: crypto/posted.def */
	KILN_CLASS,		/* 16, 256 or 512 KiB, depending on the algorithm's speed */
	KILN_CALIBRATED,	/* bytes that fit in the target, according to the calibration */
	KILN_CLOCKED,		/* the TSC, read between calls, decides where a section ends */
	KILN_ON_DEMAND,		/* a section lasts until a softirq or reschedule is pending */
	KILN_NR_WAYS
};

/* Returns the name of a chunking strategy, or NULL if @way is not a strategy. */
KILN_EXPORT const char *kiln_cut_way(u32 way);
/* Sets the strategy and its target, in TSC ticks, for the whole process. */
KILN_EXPORT void kiln_cut_set(u32 way, u64 target);
KILN_EXPORT u32 kiln_cut_get(u64 *target);
/*
 * For tests: sets the number of bytes per section, or between two checks. 0 restores the defaults.
 */
KILN_EXPORT void kiln_cut_force(u32 bytes);

struct kiln_budget {
	u32 most[2], start[2];	/* as in struct fpu_budget; [0]: encryption, [1]: decryption */
	u64 rate[2];
	u64 miss_rate;
	u32 granule;		/* budgets are multiples of this */
	u32 posted;		/* bytes per section of KILN_FIXED; 0: no limit was posted */
	u32 min_bytes;
	bool fastest;		/* measured as the fastest implementation of its algorithm */
};

KILN_EXPORT void kiln_budget_get(const struct kiln_impl *impl, struct kiln_budget *budget);
/* Returns how many bytes fit in a section of @ticks TSC ticks, or 0 if no whole granule fits. */
KILN_EXPORT u32 kiln_budget_bytes(const struct kiln_impl *impl, bool decrypt, u64 ticks);

/* bench/calibrate.c: size of the memory that the host provides, aligned to 64 bytes. */
enum { KILN_CALIBRATION_BYTES = 512 * 1024 };

struct kiln_calibration {
	u8 *memory;		/* KILN_CALIBRATION_BYTES bytes */
	/*
	 * For tests: if @rates is not NULL, nothing is run and all times are simulated.
	 * Implementation i takes rates[i] ticks per 65536 bytes, run n takes stalls[n % nr_stalls]
	 * ticks longer, and the chain of multiplications takes @chain ticks.
	 */
	const u64 *rates, *stalls;
	u32 nr_stalls;
	u64 chain;
	u64 ticks;		/* out: TSC ticks that the calibration took */
	u32 runs;		/* out: number of measured runs */
	u64 enough;		/* internal: ticks of a long run */
};

/* Measures all usable implementations and sets their budgets. */
KILN_EXPORT u64 kiln_calibrate(void *calibration);
/*
 * Calibrates if this has not been done yet, or if the clock speed has changed since the last
 * calibration. Returns whether it has calibrated.
 */
KILN_EXPORT u64 kiln_calibrate_again(void *calibration);

/*
 * The workloads between which bench/budget.c alternates: requests divided by the strategy under
 * test, requests in one section each, and sections of pure arithmetic. Each interrupt raises a
 * softirq and wakes a kthread.
 */
enum { KILN_PART_JUDGED, KILN_PART_UNBOUNDED, KILN_PART_NULL, KILN_NR_PARTS };

struct kiln_budget_part {
	struct histogram section, softirq, wake;
	u64 ops, sections, interrupted, stolen, stalls;
	u64 long_sections, long_witnessed;
	u64 *op_ticks;		/* TSC ticks of the first max_ops operations */
};

struct kiln_budget_run {
	struct kiln_requests *requests;	/* must have m.calls = 1 */
	struct kiln_budget_part *part;	/* array of KILN_NR_PARTS elements */
	u64 null_chain;		/* multiplications per section of arithmetic */
	u64 long_ticks;		/* minimum TSC ticks of a section that counts as long */
	u32 max_ops;		/* number of elements in op_ticks */
	u64 ticks;		/* minimum duration in TSC ticks */
	u64 min_ops;		/* minimum operations of each part */
	bool cold;		/* flush the data from the caches before each operation */
	bool quiet;		/* run the first part only */
	int err;
	/* The fields from here on are internal. */
	struct task *sleeper;
	u32 now;
	u32 raised;
	u64 woken;
	bool stop, stopped;
};

KILN_EXPORT u64 kiln_budget_run(void *run);
/* Returns how many TSC ticks @n dependent multiplications take: the minimum of several runs. */
KILN_EXPORT u64 kiln_budget_chain(u64 n);

#endif
