// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What KUnit's runner needs besides tasks and memory. There are no devices: of KUnit's bus
 * the suites of lib/ use nothing.
 */
#include "service.h"

int SERVICE(kunit_bus_init)(void)
{
	return 0;
}

void SERVICE(kunit_bus_shutdown)(void)
{
}

/* That a kernel has run tests taints it. */
void SERVICE(add_taint)(unsigned int flag, int lockdep)
{
	(void)flag;
	(void)lockdep;
}

/* No string is in a constant section: all are copied, and the copies freed. */
char SERVICE(__start_rodata)[1], SERVICE(__end_rodata)[1];
