// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Emulates a nested section on one CPU: fills the registers, saves them, overwrites them, restores
 * them, and checks that they have their original contents.
 */
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <asm/fpu/api.h>

#include <kiln/cpufeature.h>

#include "kernel/load/patterns.h"
#include "live.h"
#include "state.h"

#ifdef KILN_CONTROLS
static bool live_unsaved;
module_param(live_unsaved, bool, 0444);
MODULE_PARM_DESC(live_unsaved, "a control: the self-test of nested sections does not save registers");
#else
enum { live_unsaved = false };
#endif

enum { MXCSR_AT = 24, MXCSR = 0x1f80, MXCSR_ROUNDING = 0x6000 };
enum { FCW = 0x037f, FCW_ROUNDING = 0x0c00 };

static const struct width {
	const char *name;
	u32 regs, bytes, masks;
	pattern_fill_t *fill;
	pattern_read_t *read;
	clobber_t *clobber;
} widths[KILN_LIVE_WIDTHS] = {
	{ "xmm", 16, 16, 0, pattern_fill_xmm, pattern_read_xmm, clobber_xmm },
	{ "ymm", 16, 32, 0, pattern_fill_ymm, pattern_read_ymm, clobber_ymm },
	{ "zmm", 32, 64, 8, pattern_fill_zmm, pattern_read_zmm, clobber_zmm },
};

/* All buffers, in one allocation. */
struct room {
	struct pattern want, found;
	u64 cycles[KILN_LIVE_ROUNDS];
	u8 states[] __aligned(KILN_STATE_ALIGN);
};

static u64 now(void)
{
	u32 low, high;

	asm volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
	return (u64)high << 32 | low;
}

static void choose(struct pattern *want)
{
	get_random_bytes(want, sizeof(*want));
	want->mxcsr = MXCSR | (want->mxcsr & MXCSR_ROUNDING);
	want->fcw = FCW | (want->fcw & FCW_ROUNDING);
}

static bool same(const struct width *w, const struct pattern *a, const struct pattern *b)
{
	u32 i;

	for (i = 0; i < w->regs; i++)
		if (memcmp(a->zmm[i], b->zmm[i], w->bytes))
			return false;
	return !memcmp(a->k, b->k, w->masks * sizeof(a->k[0])) && a->mxcsr == b->mxcsr &&
	       a->fcw == b->fcw;
}

/*
 * Fills, overwrites and reads the registers. If @saved is true, also saves and restores them, wipes
 * the area, and returns the time that these three steps take. Otherwise, returns the time that
 * reading the TSC takes, and leaves register contents in the area.
 */
static u64 play(const struct width *w, struct room *room, u8 *area, const u8 *reset, bool saved)
{
	u64 from, clobbering, clobbered, to;
	unsigned long flags;

	local_irq_save(flags);
	kernel_fpu_begin();
	/* Reset all registers, so that only the registers that fill() sets are in use. */
	kiln_state_restore(reset);
	w->fill(&room->want);
	from = now();
	if (saved)
		kiln_state_save(area);
	clobbering = now();
	w->clobber();
	clobbered = now();
	if (saved) {
		kiln_state_restore(area);
		kiln_state_wipe(area);
	}
	to = now();
	w->read(&room->found);
	if (!saved)
		kiln_state_save(area);
	kiln_state_restore(reset);
	kernel_fpu_end();
	local_irq_restore(flags);
	return clobbering - from + to - clobbered;
}

/* Inserts a value into @cycles, which contains @n sorted values. */
static void insert(u64 *cycles, u32 n, u64 one)
{
	for (; n && cycles[n - 1] > one; n--)
		cycles[n] = cycles[n - 1];
	cycles[n] = one;
}

static void run(const struct width *w, struct room *room, u32 size, u32 rounds,
		struct kiln_live *result)
{
	u8 *area = room->states, *reset = area + size;
	u64 clock = ~0ull;
	u32 i;

	*result = (struct kiln_live){ .width = w->name };
	for (i = 0; i < rounds; i++) {
		choose(&room->want);
		insert(room->cycles, i, play(w, room, area, reset, !live_unsaved));
		result->wrong += !same(w, &room->want, &room->found) || memchr_inv(area, 0, size);
		clock = min(clock, play(w, room, area, reset, false));
		result->missed += same(w, &room->want, &room->found) || !memchr_inv(area, 0, size);
		kiln_state_wipe(area);
	}
	result->least = room->cycles[0] - min(clock, room->cycles[0]);
	result->median = room->cycles[rounds / 2] - min(clock, room->cycles[rounds / 2]);
}

int kiln_live_run(struct kiln_live result[KILN_LIVE_WIDTHS], u32 rounds)
{
	const u32 size = ALIGN(kiln_state_init(), KILN_STATE_ALIGN);
	struct room *room;
	void *memory;
	int i, n = 0;

	if (!size)
		return -EOPNOTSUPP;
	if (!rounds || rounds > KILN_LIVE_ROUNDS)
		return -EINVAL;
	memory = kzalloc(sizeof(*room) + 2 * size + KILN_STATE_ALIGN, GFP_KERNEL);
	if (!memory)
		return -ENOMEM;
	room = PTR_ALIGN(memory, KILN_STATE_ALIGN);
	*(u32 *)(room->states + size + MXCSR_AT) = MXCSR;
	for (i = 0; i < KILN_LIVE_WIDTHS; i++)
		if (8 * widths[i].bytes <= cpu_register_bits())
			run(&widths[i], room, size, rounds, &result[n++]);
	kfree(memory);
	return n;
}
