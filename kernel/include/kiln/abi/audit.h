/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Words that code of a hosted tree shares with the host's handler of single-step traps
 * (crates/kiln-kernel/src/irq/audit.rs). The code sets the trap flag; before each instruction the
 * handler looks at the registers, and may deliver an interrupt there. It uses plain C types only,
 * so that hosted trees' objects (tree/) can include this together with their own headers.
 */
#ifndef KILN_ABI_AUDIT_H
#define KILN_ABI_AUDIT_H

struct kiln_audit {
	/* The code sets these. */
	unsigned long job;	/* identifies what is being stepped; addresses are counted per job */
	unsigned long call;	/* number of this call of the function */
	unsigned long visits;	/* visits of each instruction in a section to interrupt; 0: none */
	unsigned long outside_visits;	/* the same for instructions outside sections */
	/*
	 * After this many consecutive instructions that have had all their interrupts, the rest of the
	 * call runs without single-stepping, to save time in long loops, unless the code sets the trap
	 * flag again.
	 */
	unsigned long idle, outside_idle;	/* in a section; outside */
	/* The last interrupt to deliver: the call, and the step within it. */
	unsigned long last_call, last_step;

	/* The handler sets these; the code may reset them. */
	unsigned long steps;	/* instructions since the code set this to 0, at the start of a call */
	unsigned long addresses;	/* distinct instructions stepped */
	unsigned long digest;	/* hash of these addresses; does not depend on their order */
	unsigned long points;	/* number of these that were interrupted at least once */
	unsigned long at;	/* address of the instruction interrupted last */
	unsigned long injected;
	unsigned long masked;	/* number of interrupts that were delayed because interrupts were off */
	unsigned long opener;	/* address of the last call of kernel_fpu_begin() */
};

#endif
