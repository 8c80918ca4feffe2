/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Words that code of a hosted tree shares with the host's handler of single-step traps
 * (crates/kiln-kernel/src/irq/audit.rs). The code sets the trap flag; before each instruction the
 * handler looks at the registers, and may deliver an interrupt there. Plain C types, so that hosted
 * trees' objects (tree/) can include this together with their own headers.
 */
#ifndef KILN_ABI_AUDIT_H
#define KILN_ABI_AUDIT_H

struct kiln_audit {
	/* The code sets these. */
	unsigned long job;	/* a number for what is stepped now; addresses are counted by job */
	unsigned long call;	/* which call of the function */
	unsigned long visits;	/* interrupt so many visits of each instruction in a section; 0: none */
	unsigned long outside_visits;	/* the same for instructions outside sections */
	/*
	 * After so many instructions in a row that have had all their interrupts, the call runs without
	 * steps, to save time in long loops, unless the code sets the trap flag again.
	 */
	unsigned long idle, outside_idle;	/* in a section; outside */
	/* The last interrupt to deliver: the call and the step in it. */
	unsigned long last_call, last_step;

	/* The handler sets these; the code may reset them. */
	unsigned long steps;	/* instructions since the code set this to 0, at the start of a call */
	unsigned long addresses;	/* distinct instructions that were stepped */
	unsigned long digest;	/* of these addresses, in whatever order */
	unsigned long points;	/* those of them that were interrupted at least once */
	unsigned long at;	/* the instruction that was interrupted last */
	unsigned long injected;
	unsigned long masked;	/* of these: interrupts were off, so that it came later */
	unsigned long opener;	/* where kernel_fpu_begin() was called from last */
};

#endif
