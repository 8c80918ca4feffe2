/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A histogram of TSC intervals with sixteen buckets per octave. Finding a bucket takes two
 * instructions and no floating point. Only one CPU writes to it.
 */
#ifndef KILN_HISTOGRAM_H
#define KILN_HISTOGRAM_H

#include <kiln/types.h>

#define HISTOGRAM_BUCKETS 640

struct histogram {
	u64 max;
	u32 count[HISTOGRAM_BUCKETS];
};

/*
 * Returns the bucket of @v. Buckets 0 to 15 hold one value each; above them there are sixteen
 * buckets per power of two, up to 2^43.
 */
static __always_inline u32 histogram_bucket(u64 v)
{
	u32 top;

	if (v < 16)
		return v;
	top = 63 - __builtin_clzll(v);
	if (top > 42)
		return HISTOGRAM_BUCKETS - 1;
	return (top - 3) * 16 + ((v >> (top - 4)) & 15);
}

/* Adds @v to the histogram @weight times. */
static __always_inline void histogram_add(struct histogram *h, u64 v, u32 weight)
{
	h->count[histogram_bucket(v)] += weight;
	/*
	 * Avoid a branch: while single-stepping, the number of instructions must not depend on the
	 * measured times.
	 */
	h->max = v > h->max ? v : h->max;
}

#endif
