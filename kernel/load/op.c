// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Operations in flight: their slots, the order of their completions, and the tasks that wait for
 * them.
 *
 * One context submits a side's messages. Completion callbacks run in this context or in another one
 * on the same CPU.
 */
#include <kiln/abi/hosted.h>
#include <kiln/abi/load.h>
#include <kiln/cpu.h>
#include <kiln/preempt.h>
#include <kiln/sched.h>

#include "op.h"

void op_init(struct kiln_load_side *side)
{
	u32 i;

	side->free = NULL;
	for (i = side->op->slots; i--;) {
		struct kiln_op_slot *slot = &side->slots[i];

		slot->side = side;
		slot->next = side->free;
		side->free = slot;
	}
}

/* Takes the slot that was freed last, because its memory is probably still cached. */
static struct kiln_op_slot *take(struct kiln_load_side *side)
{
	const bool off = local_irq_save();
	struct kiln_op_slot *slot = side->free;

	if (slot) {
		side->free = slot->next;
		side->in_flight++;
		slot->seq = ++side->put;
	}
	local_irq_restore(off);
	return slot;
}

static void give_back(struct kiln_op_slot *slot)
{
	struct kiln_load_side *side = slot->side;
	const bool off = local_irq_save();

	slot->next = side->free;
	side->free = slot;
	side->in_flight--;
	local_irq_restore(off);
	kiln_wake(side);
}

static void take_answer(struct kiln_op_slot *slot, int answer)
{
	struct kiln_load_side *side = slot->side;
	bool off;

	if (answer) {
		side->ops++;
		side->errors++;
		side->corrupted++;
	} else {
		check_answer(side, slot->message, slot - side->slots);
	}
	off = local_irq_save();
	if (slot->seq < side->answered)
		side->reordered++;
	else
		side->answered = slot->seq;
	local_irq_restore(off);
	give_back(slot);
}

static void __attribute__((force_align_arg_pointer)) done(void *data, int answer)
{
	/* -EINPROGRESS means that a backlogged operation has entered the queue. */
	if (answer != -EINPROGRESS)
		take_answer(data, answer);
}

void op_put(struct kiln_load_side *side, u32 i)
{
	const struct kiln_op *op = side->op;
	const size_t offset = (size_t)i * side->stride;
	struct kiln_op_slot *slot = take(side);
	u32 n;
	int answer;

	if (!slot) {
		side->dropped++;
		return;
	}
	slot->message = i;
	n = slot - side->slots;
	answer = op->crypt(op->ctx, n, side->dst + (size_t)n * side->stride,
			   side->src + offset, side->len, side->iv + 16 * i,
			   side->decrypt, done, slot);
	switch (answer) {
	case -EINPROGRESS:
	case -EBUSY:
		/* Do not access the slot: it may already be in use for another message. */
		side->async_punts++;
		break;
	case -ENOSPC:
		side->dropped++;
		give_back(slot);
		break;
	default:
		take_answer(slot, answer);
	}
}

void op_wait(struct kiln_load_side *side, u32 depth)
{
	if (*(volatile u32 *)&side->in_flight >= depth)
		wait_until(side, *(volatile u32 *)&side->in_flight < depth);
}
