// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Guests: what interrupts do while something else is tested. A softirq calls one function
 * after the other, each a message with a known answer; a hardirq those that may be called there.
 */
#include <kiln/abi/load.h>
#include <kiln/cpu.h>
#include <kiln/fpu.h>
#include <kiln/preempt.h>
#include <kiln/string.h>

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
	/* The next answer must be written, not found. */
	guest->got[0] = ~guest->want[0];
}

static void guest_softirq(struct cpu *cpu)
{
	struct kiln_guests *all = cpu->irq_data;
	const u32 i = all->next;

	all->next = i + 1 == all->softirqs ? 0 : i + 1;
	serve(all, &all->guest[i]);
}

static void guest_hardirq(struct cpu *cpu)
{
	struct kiln_guests *all = cpu->irq_data;

	all->interrupts++;
	all->into_sections += cpu->section_depth > 0;
	raise_softirq(SOFTIRQ_GUEST);
	if (all->hardirqs) {
		const u32 i = all->next_hardirq;

		all->next_hardirq = i + 1 == all->hardirqs ? 0 : i + 1;
		serve(all, &all->guest[all->softirqs + i]);
	}
}

u64 kiln_guests_attach(void *arg)
{
	struct cpu *cpu = this_cpu();

	local_irq_disable();
	cpu->irq_data = arg;
	cpu->softirq_handler[SOFTIRQ_GUEST] = guest_softirq;
	cpu->irq_handler = guest_hardirq;
	local_irq_enable();
	return 0;
}

u64 kiln_guests_detach(void *arg)
{
	(void)arg;
	local_irq_disable();
	this_cpu()->irq_handler = NULL;
	local_irq_enable();
	while (this_cpu_read(softirq_pending))
		do_softirq();
	return 0;
}
