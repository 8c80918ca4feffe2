/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Variables that a hosted tree's code shares with the host's single-step trap handler
 * (crates/kiln-kernel/src/irq/audit.rs). The code sets the trap flag. Before each instruction the
 * handler inspects the registers, and may deliver an interrupt at that instruction. This header
 * uses plain C types only, so that objects of hosted trees (tree/) can include it together with
 * their own headers.
 */
#ifndef KILN_ABI_AUDIT_H
#define KILN_ABI_AUDIT_H

struct kiln_audit {
	/* The stepped code sets the fields up to last_step. */
	unsigned long job;	/* identifies what is being stepped; addresses are counted per job */
	unsigned long call;	/* number of this call of the stepped function */
	unsigned long visits;	/* times to interrupt each instruction inside a section */
	unsigned long outside_visits;	/* times to interrupt each instruction outside sections */
	/*
	 * After this many consecutive instructions that have already been interrupted as often as
	 * they should be, the rest of the call runs without single-stepping, to save time in long
	 * loops, unless the code sets the trap flag again. @idle applies inside a section,
	 * @outside_idle outside.
	 */
	unsigned long idle, outside_idle;	/* in instructions */
	/* Interrupts are injected only up to step @last_step of call @last_call. */
	unsigned long last_call, last_step;

	/* The handler sets the fields from here on; the stepped code may reset them. */
	unsigned long steps;	/* instructions in this call; the code sets it to 0 at the start */
	unsigned long addresses;	/* number of distinct instructions stepped */
	unsigned long digest;	/* hash of the addresses stepped; does not depend on their order */
	unsigned long points;	/* number of distinct instructions interrupted at least once */
	unsigned long at;	/* address of the instruction interrupted last */
	unsigned long injected;
	unsigned long masked;	/* number of interrupts delayed because interrupts were off */
	unsigned long opener;	/* address of the last call of kernel_fpu_begin() */
};

#endif
