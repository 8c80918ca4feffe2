/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Doing something in another context than one is in.
 *
 * cpu/context.c APIs:
 *	run_in_context	in a softirq, in a hardirq over one ...: enum kiln_context
 */
#ifndef KILN_CONTEXT_H
#define KILN_CONTEXT_H

#include <kiln/cpu.h>
#include <kiln/kiln.h>

/*
 * From a task, by an interrupt of its own; @fn is called once and over on return. False if
 * it was not called: there are no softirqs where they are kept out.
 */
bool run_in_context(enum kiln_context context, void (*fn)(void *arg), void *arg);

#endif
