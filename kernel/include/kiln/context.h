/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * cpu/context.c: runs a function in a given context.
 */
#ifndef KILN_CONTEXT_H
#define KILN_CONTEXT_H

#include <kiln/abi/context.h>
#include <kiln/cpu.h>

/*
 * Called by a task. Raises an interrupt that leads to the context, and returns after @fn has
 * run there. Returns false without calling @fn if the context cannot be reached: a softirq
 * while softirqs are disabled.
 */
bool run_in_context(enum kiln_context context, void (*fn)(void *arg), void *arg);

#endif
