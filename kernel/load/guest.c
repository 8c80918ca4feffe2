// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Calls functions from interrupts while something else is tested. Each softirq calls the next
 * function in a list, with a message whose expected result is known. Each hardirq likewise calls
 * the next of the functions that hardirqs may call.
 */
#include <kiln/abi/load.h>
#include <kiln/cpu.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/string.h>

#include "common.h"
#include "patterns.h"

enum { SOFTIRQ_GUEST = 7 };

static void serve(struct kiln_guests *all, struct kiln_guest *guest)
{
	bool section = guest->section;
	const void *fn = guest->fn;

	if (section && !irq_fpu_usable()) {
		fn = guest->scalar;
		section = false;
		all->scalar_fallbacks++;
	}
	memcpy(guest->iv, guest->iv_of, guest->ivsize);
	if (section)
		kernel_fpu_begin();
	call_nine(fn, guest->arg);
	if (section) {
		clobber_registers();
		kernel_fpu_end();
		all->sections++;
	}
	all->served++;
	if (memcmp(guest->got, guest->want, guest->len))
		all->corrupted++;
	/* Invalidate the result, so that a stale one cannot pass the next check. */
	guest->got[0] = ~guest->want[0];
}

static void guest_softirq(struct cpu *cpu)
{
	struct kiln_guests *all = cpu->irq_data;

	serve(all, &all->guest[take_turn(&all->next, all->softirqs)]);
}

static void guest_hardirq(struct cpu *cpu)
{
	struct kiln_guests *all = cpu->irq_data;

	all->interrupts++;
	all->into_sections += cpu->section_depth > 0;
	raise_softirq(SOFTIRQ_GUEST);
	if (all->hardirqs)
		serve(all, &all->guest[all->softirqs +
				       take_turn(&all->next_hardirq, all->hardirqs)]);
}

u64 kiln_guests_attach(void *arg)
{
	irq_attach(arg, SOFTIRQ_GUEST, guest_softirq, guest_hardirq);
	return 0;
}

u64 kiln_guests_detach(void *arg __maybe_unused)
{
	irq_detach();
	return 0;
}
