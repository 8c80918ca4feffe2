// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The tree's view of the CPU. glue.c fills boot_cpu_data from CPUID, using the tree's own feature
 * numbers.
 */
#include "service.h"

char SERVICE(boot_cpu_data)[4096] __attribute__((aligned(64)));
unsigned int SERVICE(cpu_caps_cleared)[64], SERVICE(cpu_caps_set)[64];
unsigned int SERVICE(init_pkru_value);
int SERVICE(arch_task_struct_size);
char SERVICE(xstate_fx_sw_bytes)[64];

/* This service is used if the tree's own fpu/xstate.o cannot be linked. */
int SERVICE(cpu_has_xfeatures)(uint64_t features, const char **name)
{
	uint32_t low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	if (name)
		*name = NULL;
	return (features & ~((uint64_t)high << 32 | low)) == 0;
}
