// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What KUnit's runner needs besides tasks and memory. There are no devices, because lib/'s
 * suites do not use KUnit's bus.
 */
#include "service.h"

int SERVICE(kunit_bus_init)(void)
{
	return 0;
}

void SERVICE(kunit_bus_shutdown)(void)
{
}

/* KUnit taints the kernel when it runs a test; nothing here reads the taint. */
void SERVICE(add_taint)(unsigned int flag, int lockdep)
{
	(void)flag;
	(void)lockdep;
}

/* KUnit asks whether a string is in .rodata. An empty range makes it copy every string. */
char SERVICE(__start_rodata)[1], SERVICE(__end_rodata)[1];
