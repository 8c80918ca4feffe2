/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How many bytes an FPU section may hold: ways of cutting long messages, what each of them
 * allows, and the measuring at start that two of them rest on. Part of the border.
 *
 * crypto/cut.c APIs:
 *	fpu_budget_of, fpu_cut_*	what crypto/ cuts its sections by
 *	kiln_cut_*			which way, for which target
 * crypto/calibrate.c APIs:
 *	kiln_calibrate, kiln_calibrate_again
 * load/budget.c APIs:
 *	kiln_budget_run			sections and what they harm, to be measured
 */
#ifndef KILN_BUDGET_H
#define KILN_BUDGET_H

#include <kiln/histogram.h>
#include <kiln/kiln.h>

enum kiln_way {
	KILN_UNBOUNDED,		/* one section, whatever the length */
	KILN_PAGE,		/* 4 KiB each */
	KILN_FIXED,		/* the limits posted in 2022: crypto/posted.def */
	KILN_CLASS,		/* 16, 256 or 512 KiB */
	KILN_CALIBRATED,	/* what fits the target by what was measured at start */
	KILN_CLOCKED,		/* the counter is read after every step */
	KILN_ON_DEMAND,		/* until a softirq is pending or a reschedule is wanted */
	KILN_NR_WAYS
};

/*
 * A constant budget. One of no bytes would never end, and one that is not whole blocks
 * would leave what most functions take as the end of the message: neither compiles.
 */
#define FPU_BUDGET(bytes, block) \
	((bytes) + 0 * sizeof(char[(bytes) > 0 && (bytes) % (block) == 0 ? 1 : -1]))

/* Of one implementation in one direction. */
struct fpu_budget {
	u32 most;		/* bytes of one call; a shorter message is not cut */
	u32 granule;		/* that are multiples of this, and never none */
	u32 start;		/* TSC ticks that every call takes, its section with it ... */
	u64 rate;		/* ... and that 65536 bytes take besides; 0: not measured */
};

/* A message that is being cut. */
struct fpu_cut {
	struct fpu_budget *budget;	/* NULL: no section, nothing to cut */
	u32 way;		/* enum kiln_way */
	u32 least;		/* a smaller rest does not count as room */
	u32 step;		/* bytes of a section, or until the first look */
	u32 given, left;	/* bytes since the last look: all that there was room for, and still is */
	u64 begun, then;	/* TSC at the section's begin, and at the last look */
};

/* More implementations than there are, for tables of all. */
enum { KILN_MAX_IMPLS = 256 };

/* Both directions, encryption first; NULL if @impl is not in ciphers/list.c. */
struct fpu_budget *fpu_budget_of(const struct kiln_impl *impl);
/* Scalar code is faster for messages shorter than this; 0 before the calibration. */
u32 *fpu_min_bytes_of(const struct kiln_impl *impl);

/*
 * The one pattern, for all ciphers: open; as long as something is left, take a piece of no
 * more than room() bytes, call, and tell spent() of it; close. room() closes the section
 * and opens another where the way says so. Only a block that straddles may be longer.
 */
void fpu_cut_open(struct fpu_cut *cut, struct fpu_budget *budget);
void fpu_cut_look(struct fpu_cut *cut);
void fpu_cut_close(struct fpu_cut *cut);

static __always_inline u32 fpu_cut_room(struct fpu_cut *cut)
{
	if (unlikely(cut->left < cut->least))
		fpu_cut_look(cut);
	return cut->left;
}

static __always_inline void fpu_cut_spent(struct fpu_cut *cut, u32 n)
{
	cut->left -= n < cut->left ? n : cut->left;
}

/* Before the first algorithm is registered. */
void fpu_budgets_init(void);
/* The one of its algorithm that takes least, by what was measured; NULL: nothing was. */
const struct kiln_impl *fpu_fastest(const char *alg);
/* After what was measured changed. */
void fpu_budgets_settle(void);
/* The counter's ticks a read-and-write of memory costs, as fpu_budget has its rate. */
void fpu_miss_rate_set(u64 rate);
/* Bytes that take @ticks, whole granules; 0 if less than one does or nothing was measured. */
u32 fpu_bytes_in(const struct kiln_impl *impl, const struct fpu_budget *budget, u64 ticks);

/* By number; NULL after the last. */
KILN_EXPORT const char *kiln_cut_way(u32 way);
/* From now on, for the whole process; @target in TSC ticks. */
KILN_EXPORT void kiln_cut_set(u32 way, u64 target);
KILN_EXPORT u32 kiln_cut_get(u64 *target);
/* For tests: sections or steps of @bytes bytes, whatever was measured; 0 ends it. */
KILN_EXPORT void kiln_cut_force(u32 bytes);

struct kiln_budget {
	u32 most[2], start[2];	/* of encryption, of decryption */
	u64 rate[2];
	u64 miss_rate;
	u32 granule;		/* budgets are multiples of this */
	u32 posted;		/* bytes of KILN_FIXED; 0: no limit was posted */
	u32 min_bytes;
	bool fastest;		/* of its algorithm, by measurement */
};

KILN_EXPORT void kiln_budget_get(const struct kiln_impl *impl, struct kiln_budget *budget);
/* What the section of @ticks may hold; 0 if not one granule. */
KILN_EXPORT u32 kiln_budget_bytes(const struct kiln_impl *impl, bool decrypt, u64 ticks);

/* The host's memory for measuring, aligned to 64. */
enum { KILN_CALIBRATION_BYTES = 512 * 1024 };

struct kiln_calibration {
	u8 *memory;		/* KILN_CALIBRATION_BYTES */
	/*
	 * For tests: if @rates, no run is made. Implementation i takes rates[i] for 65536
	 * bytes, run n of all stalls[n % nr_stalls] on top of it, the chain @chain.
	 */
	const u64 *rates, *stalls;
	u32 nr_stalls;
	u64 chain;
	u64 ticks;		/* out: that all took */
	u32 runs;		/* out */
	u64 enough;		/* while it runs: what a long run takes, ticks */
};

/* For kiln_gate(): measure all implementations that are usable. */
KILN_EXPORT u64 kiln_calibrate(void *calibration);
/* For kiln_gate(): the same if the clock speed changed since; whether it did. */
KILN_EXPORT u64 kiln_calibrate_again(void *calibration);

/*
 * Messages as struct kiln_api_calls has them, in turns: under the way to be judged, in one
 * section whatever the length, and in place of them sections of pure arithmetic. Interrupts
 * raise a softirq each, and wake a kthread.
 */
enum { KILN_PART_JUDGED, KILN_PART_UNBOUNDED, KILN_PART_NULL, KILN_NR_PARTS };

struct kiln_budget_part {
	struct histogram section, softirq, wake;
	u64 ops, sections, interrupted, stolen, stalls;
	u64 long_sections, long_witnessed;
	u64 *op_ticks;		/* the first max_ops of them */
};

struct kiln_budget_run {
	struct kiln_api_calls *calls;	/* calls: 1 */
	struct kiln_budget_part *part;	/* KILN_NR_PARTS */
	u64 null_chain;		/* multiplications a null section has */
	u64 long_ticks;		/* a section from here on is long */
	u32 max_ops;		/* room in op_ticks */
	u64 ticks;		/* to run at least */
	u64 min_ops;		/* of each part */
	bool cold;		/* no data in any cache before an operation */
	bool quiet;		/* parts without the second and the third */
	int err;
	/* While it runs: */
	struct task *sleeper;
	u32 now;
	u32 raised;
	u64 woken;
	bool stop, stopped;
};

KILN_EXPORT u64 kiln_budget_run(void *run);
/* Ticks that @n dependent multiplications take here and now, the best of several. */
KILN_EXPORT u64 kiln_budget_chain(u64 n);

#endif
