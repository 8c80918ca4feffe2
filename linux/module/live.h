/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Live registers saved, overwritten and restored (state.h), as by a section over a section:
 * whether all are there again, and what it costs.
 *
 * live.c APIs:
 *	kiln_live_run
 */
#ifndef KILN_LIVE_H
#define KILN_LIVE_H

#include <linux/types.h>

enum { KILN_LIVE_WIDTHS = 3, KILN_LIVE_ROUNDS = 4096 };

struct kiln_live {
	const char *width;	/* xmm, ymm or zmm: what was live */
	u32 wrong;		/* rounds after which something was not as before */
	u32 missed;		/* the same without saving, that looked right: the control */
	u64 least, median;	/* TSC cycles of a save and a restore */
};

/* @rounds of each width that this CPU has, narrow ones first: how many, or an error. */
int kiln_live_run(struct kiln_live result[KILN_LIVE_WIDTHS], u32 rounds);

#endif
