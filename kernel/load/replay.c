// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A receiver's anti-replay window (RFC 4303, 3.4.3). It records which of the most recent sequence
 * numbers have been received. Older packets cannot be distinguished from replays.
 */
#include <kiln/abi/esp.h>
#include <kiln/string.h>

static u32 broken;

void kiln_replay_break(u32 rules)
{
	broken = rules;
}

void kiln_replay_init(struct kiln_replay *w, u32 size)
{
	memset(w, 0, sizeof(*w));
	w->size = size < 1 ? 1 : size > KILN_REPLAY_MAX ? KILN_REPLAY_MAX : size;
}

static u64 *word(struct kiln_replay *w, u64 seq)
{
	return &w->seen[seq / 64 % (KILN_REPLAY_MAX / 64)];
}

/* Advances the window to @seq. The new numbers up to @seq are marked as not received. */
static void advance(struct kiln_replay *w, u64 seq)
{
	u64 n = seq - w->top < KILN_REPLAY_MAX ? w->top + 1 : seq + 1 - KILN_REPLAY_MAX;

	for (; n <= seq; n++)
		*word(w, n) &= ~(1ull << n % 64);
	w->top = seq;
}

bool kiln_replay_accept(struct kiln_replay *w, u64 seq)
{
	const u64 bit = 1ull << seq % 64;

	if (seq > w->top) {
		advance(w, seq);
	} else if (w->top - seq >= w->size) {
		w->lost++;
		return broken & KILN_REPLAY_ENDLESS;
	} else if (*word(w, seq) & bit) {
		w->replayed++;
		return broken & KILN_REPLAY_BLIND;
	}
	*word(w, seq) |= bit;
	return true;
}
