/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * FPU section budgets: how many bytes one section may process. Chunking strategies divide long
 * messages accordingly; two of the strategies depend on the calibration. The host's interface is in
 * abi/bench.h.
 */
#ifndef KILN_BUDGET_H
#define KILN_BUDGET_H

#include <kiln/abi/bench.h>
#include <kiln/cipher.h>

/*
 * A constant budget. It compiles only if @bytes is positive and a multiple of @block. With a budget
 * of zero, processing a message would never end. With any other budget that is not a multiple of
 * @block, a section would end with a partial block, which most functions treat as the end of the
 * message.
 */
#define FPU_BUDGET(bytes, block) \
	((bytes) + 0 * sizeof(char[(bytes) > 0 && (bytes) % (block) == 0 ? 1 : -1]))

/* The budget of one implementation in one direction. */
struct fpu_budget {
	u32 most;		/* maximum bytes per call; shorter messages are not divided */
	u32 granule;		/* all pieces but the last are multiples of this length; never 0 */
	u32 start;		/* overhead per call in TSC ticks, including its section */
	u64 rate;		/* TSC ticks per 65536 bytes, without @start; 0: not measured */
};

/* The state of a message being divided into sections. */
struct fpu_cut {
	struct fpu_budget *budget;	/* NULL: no section is opened, and nothing is divided */
	u32 way;		/* enum kiln_way */
	u32 least;		/* ask the strategy again if fewer bytes than this are left */
	u32 step;		/* bytes per section, or until the next check */
	u32 given, left;	/* bytes granted at the last check; how many of them are unused */
	u64 begun, then;	/* TSC at the start of the section, and at the last check */
};

/* Size of tables indexed by implementation number. */
enum { KILN_MAX_IMPLS = 256 };

/*
 * Returns the budgets for encryption and decryption, in this order, or NULL if @impl is not in
 * ciphers/list.c.
 */
struct fpu_budget *fpu_budget_of(const struct kiln_impl *impl);
/*
 * Returns a pointer to the length in bytes below which scalar code is faster. The length is 0 until
 * the calibration has run.
 */
u32 *fpu_min_bytes_of(const struct kiln_impl *impl);

/*
 * crypto/cut.c. All ciphers use these functions in the same way: call fpu_cut_open(); while data
 * remains, take a piece of at most fpu_cut_room() bytes, process it, and pass its length to
 * fpu_cut_spent(); finally call fpu_cut_close(). fpu_cut_room() closes the section and opens
 * another where the strategy requires it. A piece may be longer than fpu_cut_room() only if it is a
 * single block that is split across two regions of memory.
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

/* Must be called before the first algorithm is registered. */
void fpu_budgets_init(void);
/* Returns the implementation of @alg measured as the fastest, or NULL if @alg was not measured. */
const struct kiln_impl *fpu_fastest(const char *alg);
void fpu_fastest_set(const struct kiln_impl *impl);
/* Recomputes all budgets. Call this after the measured rates have changed. */
void fpu_budgets_settle(void);
/*
 * Sets the extra cost, in TSC ticks per 65536 bytes, of data that is in memory rather than in the
 * caches. It is added to the measured rates.
 */
void fpu_miss_rate_set(u64 rate);
/*
 * Returns how many bytes can be processed in @ticks, rounded down to whole granules. The result is
 * 0 if not even one granule fits, or if the implementation was not measured.
 */
u32 fpu_bytes_in(const struct kiln_impl *impl, const struct fpu_budget *budget, u64 ticks);

#endif
