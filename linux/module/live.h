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
	const char *width;	/* xmm, ymm or zmm: the registers that were live */
	u32 wrong;		/* rounds after which some register had changed */
	u32 missed;		/* control: rounds without saving in which no change was detected */
	u64 least, median;	/* TSC cycles of a save plus a restore */
};

/*
 * Runs @rounds rounds for each register width of this CPU, narrowest first. Returns the number of
 * widths or an error.
 */
int kiln_live_run(struct kiln_live result[KILN_LIVE_WIDTHS], u32 rounds);

#endif
