/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A side of a load whose messages go to an operation that may answer later. */
#ifndef KILN_OP_H
#define KILN_OP_H

#include <kiln/abi/load.h>

/* All slots are free. */
void op_init(struct kiln_load_side *side);

/* Put message @i; the answer is checked when it comes. */
void op_put(struct kiln_load_side *side, u32 i);

/* Sleep until less than @depth are in flight. */
void op_wait(struct kiln_load_side *side, u32 depth);

/* load.c: whether an answer is right; and it is spoilt, so that it is not found again. */
void check_answer(struct kiln_load_side *side, u32 message, u32 at);

#endif
