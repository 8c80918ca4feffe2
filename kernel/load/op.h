/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Functions for load sides whose operations may complete asynchronously. */
#ifndef KILN_OP_H
#define KILN_OP_H

#include <kiln/abi/load.h>

/* Marks all slots as free. */
void op_init(struct kiln_load_side *side);

/* Submits message @i; its result is checked on completion. */
void op_put(struct kiln_load_side *side, u32 i);

/* Sleeps until fewer than @depth operations are in flight. */
void op_wait(struct kiln_load_side *side, u32 depth);

/*
 * load.c: checks a result and then invalidates it, so that a stale result cannot pass a later
 * check.
 */
void check_answer(struct kiln_load_side *side, u32 message, u32 at);

#endif
