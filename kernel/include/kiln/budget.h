/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * FPU section budgets: how many bytes one section may process. Chunking strategies cut long
 * messages accordingly; two of them depend on the calibration. abi/bench.h has the host's
 * interface.
 */
#ifndef KILN_BUDGET_H
#define KILN_BUDGET_H

#include <kiln/abi/bench.h>
#include <kiln/cipher.h>

/*
 * A constant budget. It compiles only if @bytes is positive and a multiple of @block: with a budget
 * of zero the message would never end, and most functions take a partial block as the end of the
 * message.
 */
#define FPU_BUDGET(bytes, block) \
	((bytes) + 0 * sizeof(char[(bytes) > 0 && (bytes) % (block) == 0 ? 1 : -1]))

/* The budget of one implementation in one direction. */
struct fpu_budget {
	u32 most;		/* bytes per call; shorter messages are not cut */
	u32 granule;		/* all pieces but the last are multiples of this; never 0 */
	u32 start;		/* TSC ticks of overhead per call, including its section ... */
	u64 rate;		/* ... and additional ticks per 65536 bytes; 0: not measured */
};

/* The state of a message that is being cut. */
struct fpu_cut {
	struct fpu_budget *budget;	/* NULL: no section is opened and the message is not cut */
	u32 way;		/* enum kiln_way */
	u32 least;		/* if less than this is left, ask the strategy again */
	u32 step;		/* bytes per section, or until the next check */
	u32 given, left;	/* bytes granted at the last check, and how many of them are left */
	u64 begun, then;	/* TSC at the start of the section, and at the last check */
};

/* An upper bound on the number of implementations, for tables indexed by them. */
enum { KILN_MAX_IMPLS = 256 };

/*
 * Returns the budgets for encryption and decryption, in this order; NULL if @impl is not in
 * ciphers/list.c.
 */
struct fpu_budget *fpu_budget_of(const struct kiln_impl *impl);
/* Scalar code is faster for messages shorter than this; 0 before the calibration. */
u32 *fpu_min_bytes_of(const struct kiln_impl *impl);

/*
 * crypto/cut.c. All ciphers use it in the same way: open; while data is left, take a piece of at
 * most room() bytes, process it, and pass its length to spent(); close. room() closes the section
 * and opens another where the strategy requires it. A piece may be longer than room() only if it is
 * one block that straddles two pieces of memory.
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
/* The implementation of @alg that is fastest by measurement; NULL if none was measured. */
const struct kiln_impl *fpu_fastest(const char *alg);
void fpu_fastest_set(const struct kiln_impl *impl);
/* Recomputes all budgets; call it after the measured rates have changed. */
void fpu_budgets_settle(void);
/* Sets the TSC ticks per 65536 bytes that reading and writing memory adds to the measured rates. */
void fpu_miss_rate_set(u64 rate);
/*
 * How many bytes can be processed in @ticks, rounded down to whole granules; 0 if that is less than
 * one granule or the implementation was not measured.
 */
u32 fpu_bytes_in(const struct kiln_impl *impl, const struct fpu_budget *budget, u64 ticks);

#endif
