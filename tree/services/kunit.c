// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Services that KUnit's runner needs in addition to tasks and memory. They include no devices,
 * because the suites in lib/ do not use KUnit's bus.
 */
#include "service.h"

int SERVICE(kunit_bus_init)(void)
{
	return 0;
}

void SERVICE(kunit_bus_shutdown)(void)
{
}

/* Does nothing. KUnit taints the kernel when it runs a test, but no code here reads the taint. */
void SERVICE(add_taint)(unsigned int flag, int lockdep)
{
	(void)flag;
	(void)lockdep;
}

/*
 * Bounds of .rodata. KUnit copies strings unless they are in .rodata. Here the range is empty, so
 * KUnit copies all strings.
 */
char SERVICE(__start_rodata)[1], SERVICE(__end_rodata)[1];
