/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Saves, overwrites and restores live registers (state.h) as a nested section does. Checks that all
 * registers are restored and that none remain in the area, and measures the cost.
 *
 * live.c APIs:
 *	kiln_live_run
 */
#ifndef KILN_LIVE_H
#define KILN_LIVE_H

#include <linux/types.h>

enum { KILN_LIVE_WIDTHS = 3, KILN_LIVE_ROUNDS = 4096 };

struct kiln_live {
	const char *width;	/* width of the live registers: xmm, ymm or zmm */
	/* number of rounds after which a register had changed, or the area was not wiped */
	u32 wrong;
	/*
	 * number of control rounds in which a change to an unsaved register, or register contents
	 * left in the area, went undetected
	 */
	u32 missed;
	u64 least, median;	/* TSC cycles of saving, restoring and wiping */
};

/*
 * Runs @rounds rounds for each register width of this CPU, beginning with the narrowest. Returns
 * the number of widths or an error.
 */
int kiln_live_run(struct kiln_live result[KILN_LIVE_WIDTHS], u32 rounds);

#endif
