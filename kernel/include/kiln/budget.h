/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How many bytes an FPU section may hold: methods that cut long messages, and the calibration that
 * two of them depend on. The border is in abi/bench.h.
 */
#ifndef KILN_BUDGET_H
#define KILN_BUDGET_H

#include <kiln/abi/bench.h>
#include <kiln/cipher.h>

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
 * crypto/cut.c: the pattern for all ciphers. Open; while something is left, take a piece of at most
 * room() bytes, call, and pass its length to spent(); close. room() closes the section and opens
 * another where the method requires it. Only a block that straddles two pieces may be longer.
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
void fpu_fastest_set(const struct kiln_impl *impl);
/* After what was measured changed. */
void fpu_budgets_settle(void);
/* The counter's ticks a read-and-write of memory costs, as fpu_budget has its rate. */
void fpu_miss_rate_set(u64 rate);
/* Bytes that take @ticks, whole granules; 0 if less than one does or nothing was measured. */
u32 fpu_bytes_in(const struct kiln_impl *impl, const struct fpu_budget *budget, u64 ticks);

#endif
